//! The open connections: who is let in, and who has to go.
//!
//! Nobody can keep others out by holding connections: when there are too many, the one that has kept
//! the server waiting for the longest time makes place for the new one. Those who had few reviews
//! answered go first, so that strangers do not displace an API server that has nothing to ask.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::activity::Activity;
use super::connection::{Terms, converse};
use super::descriptors::affordable;
use crate::Limits;

/// The open connections. They end with it.
#[derive(Debug)]
pub(crate) struct Guests {
    tasks: JoinSet<()>,
    open: HashMap<Id, Guest>,
    most: usize,
    header_time: Duration,
    idle_time: Duration,
}

#[derive(Debug)]
struct Guest {
    task: AbortHandle,
    activity: Arc<Activity>,
}

impl Guests {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            tasks: JoinSet::new(),
            open: HashMap::new(),
            most: affordable(limits.connections),
            header_time: limits.header_time,
            idle_time: limits.idle_time,
        }
    }

    /// Whether another one can be let in: there is place, or somebody can make place.
    pub(crate) fn has_room(&self) -> bool {
        self.open.len() < self.most || self.slowest().is_some()
    }

    /// Takes a new connection.
    pub(crate) fn admit(&mut self, stream: TcpStream, terms: Terms) {
        let activity = Arc::new(Activity::new());
        self.welcome(Arc::clone(&activity), converse(stream, terms, activity));
    }

    fn welcome(
        &mut self,
        activity: Arc<Activity>,
        conversation: impl Future<Output = ()> + Send + 'static,
    ) {
        if self.open.len() >= self.most {
            self.make_room();
        }
        let task = self.tasks.spawn(conversation);
        self.open.insert(task.id(), Guest { task, activity });
    }

    /// Sends one of them away, the slowest; for when the system has nothing left for another one.
    /// Says whether there was one.
    pub(crate) fn make_room(&mut self) -> bool {
        let slowest = self.slowest();
        if let Some(id) = slowest {
            self.dismiss(id);
        }
        slowest.is_some()
    }

    /// Sends those away who have been silent for too long.
    pub(crate) fn sweep(&mut self) {
        let late = self.open.iter().filter(|(_, guest)| {
            let limit = if guest.activity.has_asked() {
                self.idle_time
            } else {
                self.header_time
            };
            guest
                .activity
                .silence()
                .is_some_and(|silence| silence > limit)
        });
        let late: Vec<Id> = late.map(|(id, _)| *id).collect();
        for id in late {
            self.dismiss(id);
        }
    }

    /// How often to sweep.
    pub(crate) fn sweeping(&self) -> Duration {
        let shortest = self.header_time.min(self.idle_time) / 4;
        shortest.clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    /// Waits until one of them is gone; forever if there is none.
    ///
    /// # Cancellation
    /// Can be dropped at any moment; nobody is forgotten by that.
    pub(crate) async fn leave(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => {
                report(&error);
                error.id()
            }
            None => return std::future::pending().await,
        };
        self.open.remove(&id);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    fn slowest(&self) -> Option<Id> {
        let waiting = self.open.iter().filter_map(|(id, guest)| {
            let silence = guest.activity.silence()?;
            Some((Reverse(guest.activity.standing()), silence, id))
        });
        let slowest = waiting.max_by_key(|(standing, silence, _)| (*standing, *silence));
        slowest.map(|(_, _, id)| *id)
    }

    fn dismiss(&mut self, id: Id) {
        if let Some(guest) = self.open.remove(&id) {
            guest.task.abort();
        }
    }
}

fn report(error: &JoinError) {
    if error.is_panic() {
        tracing::error!("A connection to the webhook server has ended by a panic: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guests(most: usize) -> Guests {
        let limits = Limits {
            connections: most,
            header_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(120),
            ..Limits::default()
        };
        Guests::new(&limits)
    }

    fn enter(guests: &mut Guests) -> Arc<Activity> {
        let activity = Arc::new(Activity::new());
        // Each of them holds its activity for as long as it is there.
        let held = Arc::clone(&activity);
        guests.welcome(Arc::clone(&activity), async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        activity
    }

    async fn is_gone(guests: &mut Guests, activity: &Arc<Activity>) -> bool {
        // What is aborted is gone only after it has been looked at.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        while guests.tasks.try_join_next().is_some() {}
        Arc::strong_count(activity) == 1
    }

    #[tokio::test(start_paused = true)]
    async fn the_slowest_stranger_makes_place() {
        let second = Duration::from_secs(1);
        let mut guests = guests(4);
        let proven = enter(&mut guests);
        proven.review().succeeded();
        tokio::time::advance(second).await;
        let first = enter(&mut guests);
        tokio::time::advance(second).await;
        let second_one = enter(&mut guests);
        let busy = enter(&mut guests);
        let _review = busy.review();
        tokio::time::advance(second).await;
        first.asked();

        let _third = enter(&mut guests);
        assert_eq!(guests.len(), 4);
        assert!(is_gone(&mut guests, &second_one).await);
        for staying in [&proven, &first, &busy] {
            assert!(!is_gone(&mut guests, staying).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_answer_is_not_worth_as_much_as_many() {
        let mut guests = guests(2);
        let known = enter(&mut guests);
        for _ in 0..4 {
            known.review().succeeded();
        }
        tokio::time::advance(Duration::from_secs(5)).await;
        let once = enter(&mut guests);
        once.review().succeeded();
        let _next = enter(&mut guests);
        assert!(is_gone(&mut guests, &once).await);
        assert!(!is_gone(&mut guests, &known).await);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_makes_place_while_all_have_reviews_under_way() {
        let mut guests = guests(2);
        let (one, two) = (enter(&mut guests), enter(&mut guests));
        assert!(guests.has_room());
        let _first = one.review();
        let second = two.review();
        assert!(!guests.has_room());
        drop(second);
        assert!(guests.has_room());
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_silent_for_too_long_has_to_go() {
        let mut guests = guests(9);
        let (silent, asking, busy) = (enter(&mut guests), enter(&mut guests), enter(&mut guests));
        asking.asked();
        let _review = busy.review();
        tokio::time::advance(Duration::from_secs(9)).await;
        guests.sweep();
        assert_eq!(guests.len(), 3);
        tokio::time::advance(Duration::from_secs(2)).await;
        guests.sweep();
        assert!(is_gone(&mut guests, &silent).await);
        assert_eq!(guests.len(), 2);
        tokio::time::advance(Duration::from_secs(120)).await;
        guests.sweep();
        assert!(is_gone(&mut guests, &asking).await);
        assert!(!is_gone(&mut guests, &busy).await);
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_is_forgotten() {
        let mut guests = guests(9);
        guests.welcome(Arc::new(Activity::new()), async {});
        guests.welcome(Arc::new(Activity::new()), async { panic!("on purpose") });
        guests.leave().await;
        guests.leave().await;
        assert_eq!(guests.len(), 0);
    }
}
