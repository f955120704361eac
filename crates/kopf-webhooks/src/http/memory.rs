//! The memory for reviews: for their texts, and for [what is made of them](super::values).
//!
//! Connections share it, and a few of them must not be able to keep it from the others. So there is
//! a little for each of them, a part of it is for those only who are known, and when somebody
//! has been waiting in vain for a while, those have to go who hold much and do not go on, or who
//! are known the least.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::activity::Activity;
use super::rejection::Rejection;
use super::values::Values;
use crate::Limits;

/// What each request can have without asking: most reviews are smaller.
pub(super) const OWN: usize = 64 * 1024;

/// How many requests of one connection at once can have that.
const OWNERS: usize = 4;

/// How long one waits in vain before others have to go.
const GRACE: Duration = Duration::from_millis(500);

/// The memory of a server.
#[derive(Debug)]
pub(super) struct Pool {
    texts: Arc<Semaphore>,
    /// For the texts of those who have been served before.
    reserve: Arc<Semaphore>,
    values: Values,
    visitors: Mutex<Visitors>,
}

#[derive(Debug, Default)]
struct Visitors {
    all: Vec<Arc<Activity>>,
    /// When somebody had to go for the last time.
    relieved: Option<Instant>,
}

/// The memory of one connection: a little of its own, and what all of them share.
#[derive(Debug)]
pub(super) struct Memory {
    own: Arc<Semaphore>,
    pool: Arc<Pool>,
    activity: Arc<Activity>,
}

/// What one text has.
#[derive(Debug, Default)]
pub(super) struct Held {
    own: Option<OwnedSemaphorePermit>,
    texts: Option<OwnedSemaphorePermit>,
    reserve: Option<OwnedSemaphorePermit>,
    /// For whom it counts as what is held by a text that has not come in full.
    counted: Option<Arc<Activity>>,
}

impl Pool {
    pub(super) fn new(limits: &Limits) -> Self {
        // One review must fit in any case.
        let texts = limits.memory.max(limits.body).min(Semaphore::MAX_PERMITS);
        let reserve = (texts / 4).min(texts - limits.body.min(texts));
        Self {
            texts: Arc::new(Semaphore::new(texts - reserve)),
            reserve: Arc::new(Semaphore::new(reserve)),
            values: Values::new(limits),
            visitors: Mutex::default(),
        }
    }

    fn visitors(&self) -> MutexGuard<'_, Visitors> {
        self.visitors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends somebody away for the sake of one who waits for so much.
    fn relieve(&self, waiting: &Arc<Activity>, bytes: usize) {
        let mut visitors = self.visitors();
        let now = Instant::now();
        // What was freed has to arrive first.
        if visitors.relieved.is_some_and(|last| now - last < GRACE) {
            return;
        }
        let candidates = visitors.all.iter().filter(|other| {
            let is_worth = other.holding() >= bytes && !Arc::ptr_eq(other, waiting);
            let is_weaker = other.standing() <= waiting.standing();
            // Other requests on the same connection would be lost as well.
            let is_needed = other.standing() > 0 && other.silence().is_none();
            is_worth && !is_needed && (is_weaker || other.is_stalled())
        });
        let rank = |other: &Activity| {
            (
                other.is_stalled(),
                Reverse(other.standing()),
                other.holding(),
            )
        };
        let Some(worst) = candidates.max_by_key(|other| rank(other)) else {
            return;
        };
        tracing::debug!("A connection to the webhook server is closed: it holds too much memory.");
        worst.dismiss();
        visitors.relieved = Some(now);
    }
}

impl Memory {
    pub(super) fn new(pool: Arc<Pool>, activity: Arc<Activity>) -> Self {
        pool.visitors().all.push(Arc::clone(&activity));
        Self {
            own: Arc::new(Semaphore::new(OWN * OWNERS)),
            pool,
            activity,
        }
    }

    /// Takes so much for another piece of a text; waits until there is as much.
    pub(super) async fn take(&self, bytes: usize, held: &mut Held) {
        let Ok(permits) = u32::try_from(bytes) else {
            // A frame of 4 GiB cannot be: it would be larger than the limit.
            return;
        };
        self.activity.fed();
        let owned = permits_of(held.own.as_ref());
        if owned + bytes <= OWN
            && let Ok(permit) = Arc::clone(&self.own).try_acquire_many_owned(permits)
        {
            return merge(&mut held.own, permit);
        }
        held.count(&self.activity);
        if self.try_take(permits, held) {
            return;
        }
        let _starved = self.activity.starved();
        let pool = &*self.pool;
        let taking = Arc::clone(&pool.texts).acquire_many_owned(permits);
        tokio::pin!(taking);
        loop {
            match timeout(GRACE, &mut taking).await {
                Ok(Ok(permit)) => {
                    held.add(&self.activity, bytes);
                    return merge(&mut held.texts, permit);
                }
                // It is never closed.
                Ok(Err(_)) => return,
                Err(_) if self.try_reserve(permits, held) => return,
                Err(_) => pool.relieve(&self.activity, bytes),
            }
        }
    }

    fn try_take(&self, permits: u32, held: &mut Held) -> bool {
        match Arc::clone(&self.pool.texts).try_acquire_many_owned(permits) {
            Ok(permit) => {
                held.add(&self.activity, permit.num_permits());
                merge(&mut held.texts, permit);
                true
            }
            Err(_) => self.try_reserve(permits, held),
        }
    }

    fn try_reserve(&self, permits: u32, held: &mut Held) -> bool {
        if self.activity.standing() == 0 {
            return false;
        }
        let reserve = Arc::clone(&self.pool.reserve);
        let Ok(permit) = reserve.try_acquire_many_owned(permits) else {
            return false;
        };
        held.add(&self.activity, permit.num_permits());
        merge(&mut held.reserve, permit);
        true
    }

    /// Takes what the values of a text need; waits until there is as much.
    pub(super) async fn unfold(
        &self,
        text: &[u8],
    ) -> Result<Option<OwnedSemaphorePermit>, Rejection> {
        let is_known = self.activity.standing() > 0;
        self.pool.values.take(text, is_known).await
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut visitors = self.pool.visitors();
        visitors
            .all
            .retain(|other| !Arc::ptr_eq(other, &self.activity));
    }
}

impl Held {
    /// The text is there in full: nobody has to go for it any more.
    pub(super) fn complete(&mut self) {
        if let Some(activity) = self.counted.take() {
            activity.release(permits_of(self.texts.as_ref()) + permits_of(self.reserve.as_ref()));
        }
    }

    fn count(&mut self, activity: &Arc<Activity>) {
        self.counted.get_or_insert_with(|| Arc::clone(activity));
    }

    fn add(&self, activity: &Activity, bytes: usize) {
        debug_assert!(self.counted.is_some(), "it is counted before");
        activity.hold(bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.complete();
    }
}

fn permits_of(held: Option<&OwnedSemaphorePermit>) -> usize {
    held.map_or(0, OwnedSemaphorePermit::num_permits)
}

fn merge(all: &mut Option<OwnedSemaphorePermit>, permit: OwnedSemaphorePermit) {
    match all {
        Some(all) => all.merge(permit),
        None => *all = Some(permit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// 300,000 for everybody, and 100,000 for those who are known.
    fn pool() -> Arc<Pool> {
        Arc::new(Pool::new(&Limits {
            body: 100_000,
            memory: 400_000,
            ..Limits::default()
        }))
    }

    fn visit(pool: &Arc<Pool>) -> (Memory, Arc<Activity>) {
        let activity = Arc::new(Activity::new());
        let memory = Memory::new(Arc::clone(pool), Arc::clone(&activity));
        (memory, activity)
    }

    /// What it has if it gets it within this time. As in a connection, a dismissal ends it.
    async fn held(memory: &Memory, bytes: usize, time: Duration) -> Option<Held> {
        let mut held = Held::default();
        let taking = timeout(time, memory.take(bytes, &mut held)).await;
        taking.is_ok().then_some(held)
    }

    #[tokio::test(start_paused = true)]
    async fn who_holds_much_and_stalls_has_to_go() {
        let pool = pool();
        let (small, (large, large_one), (busy, busy_one)) =
            (visit(&pool), visit(&pool), visit(&pool));
        let _small = held(&small.0, 70_000, SECOND).await.unwrap();
        let larger = held(&large, 90_000, SECOND).await.unwrap();
        let mut complete = held(&busy, 140_000, SECOND).await.unwrap();
        complete.complete();
        assert_eq!(large_one.holding(), 90_000);
        assert_eq!(busy_one.holding(), 0, "nobody waits for it");

        tokio::time::sleep(2 * SECOND).await;
        let leaving = async {
            let _ = timeout(10 * SECOND, large_one.dismissed()).await;
            drop(larger);
        };
        let (waiting, _) = visit(&pool);
        let (taken, ()) = tokio::join!(held(&waiting, 80_000, 5 * SECOND), leaving);
        assert!(taken.is_some());
        assert!(!small.1.is_dismissed() && !busy_one.is_dismissed());
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_do_not_displace_others_who_go_on() {
        let pool = pool();
        let (known, known_one) = visit(&pool);
        known_one.review().succeeded();
        let _held = held(&known, 290_000, SECOND).await.unwrap();
        let (waiting, waiting_one) = visit(&pool);
        let feeding = async {
            for _ in 0..20 {
                tokio::time::sleep(SECOND / 10).await;
                known_one.fed();
            }
        };
        let (taken, ()) = tokio::join!(held(&waiting, 80_000, 2 * SECOND), feeding);
        assert!(taken.is_none() && !known_one.is_dismissed());
        // But somebody who is known better does.
        for _ in 0..4 {
            waiting_one.review().succeeded();
        }
        let _reserve = held(&waiting, 90_000, SECOND).await.unwrap();
        assert!(held(&waiting, 80_000, SECOND).await.is_none());
        assert!(known_one.is_dismissed());
    }

    #[tokio::test(start_paused = true)]
    async fn nor_does_anybody_displace_reviews_under_way_of_those_who_are_known() {
        let pool = pool();
        let (known, known_one) = visit(&pool);
        known_one.review().succeeded();
        let _held = held(&known, 290_000, SECOND).await.unwrap();
        let (waiting, _) = visit(&pool);
        let review = known_one.review();
        assert!(held(&waiting, 80_000, 5 * SECOND).await.is_none());
        assert!(!known_one.is_dismissed());
        drop(review);
        assert!(held(&waiting, 80_000, 5 * SECOND).await.is_none());
        assert!(known_one.is_dismissed());
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_a_reserve_for_those_who_are_known() {
        let pool = pool();
        let (hog, _) = visit(&pool);
        let _held = held(&hog, 300_000, SECOND).await.unwrap();
        let (memory, activity) = visit(&pool);
        assert!(held(&memory, 80_000, GRACE / 2).await.is_none());
        activity.review().succeeded();
        assert!(held(&memory, 80_000, GRACE / 2).await.is_some());
        assert_eq!(pool.reserve.available_permits(), 100_000);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_one_connection_have_a_little_each() {
        let pool = pool();
        let (hog, _) = visit(&pool);
        let _held = held(&hog, 300_000, SECOND).await.unwrap();
        let (memory, _) = visit(&pool);
        let mut all = Vec::new();
        for _ in 0..OWNERS {
            all.push(held(&memory, OWN, GRACE / 2).await.unwrap());
        }
        assert!(held(&memory, 1, GRACE / 2).await.is_none());
        drop(all);
        let mut one = held(&memory, OWN, GRACE / 2).await.unwrap();
        let more = memory.take(1, &mut one);
        assert!(timeout(GRACE / 2, more).await.is_err(), "not for one alone");
    }

    #[test]
    fn one_review_fits_whatever_the_limits_are() {
        for (body, memory) in [(100, 0), (100, 100), (100, 120), (0, 0)] {
            let pool = Pool::new(&Limits {
                body,
                memory,
                ..Limits::default()
            });
            assert!(pool.texts.available_permits() >= body);
        }
    }
}
