//! Waiting time of events in mailboxes.

use std::collections::BTreeMap;
use std::time::Duration;

use kopf_core::sync::Mutex;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

/// Resolution of the age of the oldest event. A coarse resolution keeps the map small under load.
const TICK: Duration = Duration::from_millis(100);

/// The non-empty mailboxes of one resource, by the arrival of their oldest event.
#[derive(Debug)]
pub(crate) struct Waiting {
    epoch: Instant,
    /// Number of mailboxes by ticks since the epoch.
    since: Mutex<BTreeMap<u128, u32>>,
    waits: Histogram,
}

/// The arrival of the oldest event in a mailbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival(Instant);

impl Waiting {
    pub(super) fn new(waits: Histogram) -> Self {
        Self {
            epoch: Instant::now(),
            since: Mutex::default(),
            waits,
        }
    }

    fn tick(&self, at: Instant) -> u128 {
        at.duration_since(self.epoch).as_millis() / TICK.as_millis()
    }

    /// Records that a mailbox has become non-empty.
    pub(crate) fn arrive(&self) -> Arrival {
        let now = Instant::now();
        *self.since.lock().entry(self.tick(now)).or_default() += 1;
        Arrival(now)
    }

    /// Records that a mailbox has become empty.
    pub(crate) fn leave(&self, arrival: Arrival) {
        let Arrival(at) = arrival;
        self.waits.observe(at.elapsed().as_secs_f64());
        let tick = self.tick(at);
        let mut since = self.since.lock();
        if let Some(count) = since.get_mut(&tick) {
            *count -= 1;
            if *count == 0 {
                since.remove(&tick);
            }
        }
    }

    /// Returns the age of the oldest waiting event; zero if there is none.
    pub(super) fn oldest(&self) -> Duration {
        let Some(tick) = self.since.lock().keys().next().copied() else {
            return Duration::ZERO;
        };
        let millis = tick.saturating_mul(TICK.as_millis());
        let at = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        self.epoch.elapsed().saturating_sub(at)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn age_is_that_of_the_oldest_mailbox() {
        let waiting = Waiting::new(Histogram::new([1.0]));
        assert_eq!(waiting.oldest(), Duration::ZERO);
        let first = waiting.arrive();
        let second = waiting.arrive();
        sleep(Duration::from_secs(5)).await;
        let third = waiting.arrive();
        sleep(Duration::from_secs(2)).await;
        assert_eq!(waiting.oldest(), Duration::from_secs(7));
        waiting.leave(first);
        assert_eq!(waiting.oldest(), Duration::from_secs(7));
        waiting.leave(second);
        assert_eq!(waiting.oldest(), Duration::from_secs(2));
        waiting.leave(third);
        assert_eq!(waiting.oldest(), Duration::ZERO);
        assert!(waiting.since.lock().is_empty());
    }
}
