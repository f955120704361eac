//! Delayed jobs.

use std::collections::{BTreeMap, HashMap};

use kopf_sandbox_api::store::Key;
use kopf_sandbox_store::sync::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Simulated;

/// An object to reconcile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Item {
    pub(super) kind: Simulated,
    pub(super) key: Key,
}

/// Pending timers: at most one for each object, the last one that was set.
#[derive(Debug, Default)]
pub(super) struct Timers {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// By time, then in the order of setting.
    queue: BTreeMap<(Instant, u64), Item>,
    positions: HashMap<Item, (Instant, u64)>,
    sequence: u64,
}

impl Timers {
    /// Sets the timer of an object.
    pub(super) fn set(&self, item: Item, at: Instant) {
        let mut state = self.state.lock();
        if let Some(position) = state.positions.remove(&item) {
            state.queue.remove(&position);
        }
        state.sequence += 1;
        let position = (at, state.sequence);
        state.queue.insert(position, item.clone());
        state.positions.insert(item, position);
        self.changed.notify_one();
    }

    /// Waits for the next timer and returns its object. Cancel-safe.
    pub(super) async fn next(&self) -> Item {
        loop {
            let first = {
                let mut state = self.state.lock();
                let first = state.queue.first_key_value().map(|((at, _), _)| *at);
                if first.is_some_and(|at| at <= Instant::now())
                    && let Some((_, item)) = state.queue.pop_first()
                {
                    state.positions.remove(&item);
                    return item;
                }
                first
            };
            match first {
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(at) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn last_timer_of_an_object_wins() {
        let timers = Timers::default();
        let start = Instant::now();
        let item = |name: &str| Item {
            kind: Simulated::Pods,
            key: Key::new(Some("default"), name),
        };
        timers.set(item("a"), start + Duration::from_secs(5));
        timers.set(item("b"), start + Duration::from_secs(9));
        timers.set(item("a"), start + Duration::from_secs(10));
        assert_eq!(timers.next().await, item("b"));
        assert_eq!(timers.next().await, item("a"));
        assert_eq!(start.elapsed(), Duration::from_secs(10));
    }
}
