//! The open connections of a server: accepting, eviction, idle timeouts.
//!
//! Clients cannot block others by holding connections: when the limit is reached, the connection that
//! has been silent for the longest time is closed in favour of the new one. Connections with few
//! completed reviews go first, so that unknown clients do not displace an idle API server.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::timeout;

use super::activity::Activity;
use super::connection::{ConnectionConfig, serve_connection};
use super::descriptors::affordable;
use crate::Limits;

/// The open connections. Dropping it closes them.
#[derive(Debug)]
pub(crate) struct Connections {
    tasks: JoinSet<()>,
    open: HashMap<Id, Connection>,
    limit: usize,
    header_time: Duration,
    idle_time: Duration,
}

#[derive(Debug)]
struct Connection {
    task: AbortHandle,
    activity: Arc<Activity>,
}

impl Connections {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            tasks: JoinSet::new(),
            open: HashMap::new(),
            limit: affordable(limits.connections),
            header_time: limits.header_time,
            idle_time: limits.idle_time,
        }
    }

    /// Returns `true` if a connection can be accepted: below the limit, or by evicting another one.
    pub(crate) fn can_accept(&self) -> bool {
        self.open.len() < self.limit || self.evictable().is_some()
    }

    /// Serves a new connection.
    pub(crate) fn accept(&mut self, stream: TcpStream, config: ConnectionConfig) {
        let activity = Arc::new(Activity::new());
        let serving = serve_connection(stream, config, Arc::clone(&activity));
        self.spawn(activity, serving);
    }

    fn spawn(
        &mut self,
        activity: Arc<Activity>,
        serving: impl Future<Output = ()> + Send + 'static,
    ) {
        if self.open.len() >= self.limit {
            self.evict();
        }
        let task = self.tasks.spawn(serving);
        self.open.insert(task.id(), Connection { task, activity });
    }

    /// Closes the least valuable connection. Returns `false` if all of them have reviews under way.
    pub(crate) fn evict(&mut self) -> bool {
        let evictable = self.evictable();
        if let Some(id) = evictable {
            self.close(id);
        }
        evictable.is_some()
    }

    /// Closes the connections that have been silent for too long.
    pub(crate) fn close_idle(&mut self) {
        let idle = self.open.iter().filter(|(_, connection)| {
            let limit = if connection.activity.has_asked() {
                self.idle_time
            } else {
                self.header_time
            };
            let silence = connection.activity.silence();
            silence.is_some_and(|silence| silence > limit)
        });
        let idle: Vec<Id> = idle.map(|(id, _)| *id).collect();
        for id in idle {
            self.close(id);
        }
    }

    /// Returns the interval for [`close_idle`](Self::close_idle).
    pub(crate) fn idle_interval(&self) -> Duration {
        let shortest = self.header_time.min(self.idle_time) / 4;
        shortest.clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    /// Waits until a connection is closed; forever if there is none. Cancel-safe.
    pub(crate) async fn closed(&mut self) {
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

    /// Waits until all connections are closed, for at most this time; then aborts the rest.
    pub(crate) async fn stop(&mut self, limit: Duration) {
        let closing = async {
            while let Some(ended) = self.tasks.join_next().await {
                if let Err(error) = ended {
                    report(&error);
                }
            }
        };
        if timeout(limit, closing).await.is_err() {
            tracing::debug!("Connections to the webhook server are aborted.");
            self.tasks.shutdown().await;
        }
        self.open.clear();
    }

    /// Returns the number of open connections.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    fn evictable(&self) -> Option<Id> {
        let waiting = self.open.iter().filter_map(|(id, connection)| {
            let silence = connection.activity.silence()?;
            Some((Reverse(connection.activity.rank()), silence, id))
        });
        let slowest = waiting.max_by_key(|(rank, silence, _)| (*rank, *silence));
        slowest.map(|(_, _, id)| *id)
    }

    fn close(&mut self, id: Id) {
        if let Some(connection) = self.open.remove(&id) {
            connection.task.abort();
        }
    }
}

fn report(error: &JoinError) {
    if error.is_panic() {
        tracing::error!("A connection to the webhook server panicked: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(limit: usize) -> Connections {
        let limits = Limits {
            connections: limit,
            header_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(120),
            ..Limits::default()
        };
        Connections::new(&limits)
    }

    fn enter(connections: &mut Connections) -> Arc<Activity> {
        let activity = Arc::new(Activity::new());
        // The task holds the activity, so that its end is visible by the count.
        let held = Arc::clone(&activity);
        connections.spawn(Arc::clone(&activity), async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        activity
    }

    async fn is_gone(connections: &mut Connections, activity: &Arc<Activity>) -> bool {
        // Aborted tasks are dropped when they are polled the next time.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        while connections.tasks.try_join_next().is_some() {}
        Arc::strong_count(activity) == 1
    }

    #[tokio::test(start_paused = true)]
    async fn longest_silent_unknown_client_is_evicted() {
        let second = Duration::from_secs(1);
        let mut connections = connections(4);
        let proven = enter(&mut connections);
        proven.review().succeeded();
        tokio::time::advance(second).await;
        let first = enter(&mut connections);
        tokio::time::advance(second).await;
        let second_one = enter(&mut connections);
        let busy = enter(&mut connections);
        let _review = busy.review();
        tokio::time::advance(second).await;
        first.asked();

        let _third = enter(&mut connections);
        assert_eq!(connections.len(), 4);
        assert!(is_gone(&mut connections, &second_one).await);
        for staying in [&proven, &first, &busy] {
            assert!(!is_gone(&mut connections, staying).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clients_with_more_reviews_are_evicted_later() {
        let mut connections = connections(2);
        let known = enter(&mut connections);
        for _ in 0..4 {
            known.review().succeeded();
        }
        tokio::time::advance(Duration::from_secs(5)).await;
        let once = enter(&mut connections);
        once.review().succeeded();
        let _next = enter(&mut connections);
        assert!(is_gone(&mut connections, &once).await);
        assert!(!is_gone(&mut connections, &known).await);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_with_reviews_under_way_are_not_evicted() {
        let mut connections = connections(2);
        let (one, two) = (enter(&mut connections), enter(&mut connections));
        assert!(connections.can_accept());
        let _first = one.review();
        let second = two.review();
        assert!(!connections.can_accept());
        drop(second);
        assert!(connections.can_accept());
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connections_are_closed() {
        let mut connections = connections(9);
        let (silent, asking, busy) = (
            enter(&mut connections),
            enter(&mut connections),
            enter(&mut connections),
        );
        asking.asked();
        let _review = busy.review();
        tokio::time::advance(Duration::from_secs(9)).await;
        connections.close_idle();
        assert_eq!(connections.len(), 3);
        tokio::time::advance(Duration::from_secs(2)).await;
        connections.close_idle();
        assert!(is_gone(&mut connections, &silent).await);
        assert_eq!(connections.len(), 2);
        tokio::time::advance(Duration::from_secs(120)).await;
        connections.close_idle();
        assert!(is_gone(&mut connections, &asking).await);
        assert!(!is_gone(&mut connections, &busy).await);
    }

    #[tokio::test(start_paused = true)]
    async fn closed_connections_are_removed() {
        let mut connections = connections(9);
        connections.spawn(Arc::new(Activity::new()), async {});
        connections.spawn(Arc::new(Activity::new()), async { panic!("on purpose") });
        connections.closed().await;
        connections.closed().await;
        assert_eq!(connections.len(), 0);
    }
}
