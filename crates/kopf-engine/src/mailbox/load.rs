//! The load of one stream: the events in the mailboxes of its objects. Beyond the limits, reading
//! of the stream is suspended; events are not dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::metrics::{self, Arrival, ResourceMetrics};

/// Counters shared by a stream and the mailboxes of its objects.
#[derive(Debug, Default)]
pub(crate) struct Load {
    events: AtomicUsize,
    bytes: AtomicUsize,
    /// All entries, including those that do not count as events.
    entries: AtomicUsize,
    relief: Notify,
    metrics: Option<Arc<ResourceMetrics>>,
}

impl metrics::QueueSize for Load {
    fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Load {
    /// Creates an empty load that reports to these metrics.
    pub(crate) fn measured(metrics: Option<Arc<ResourceMetrics>>) -> Self {
        Self {
            metrics,
            ..Self::default()
        }
    }

    /// Records that a mailbox has become non-empty.
    pub(crate) fn arrive(&self) -> Option<Arrival> {
        Some(self.metrics.as_ref()?.waiting.arrive())
    }

    /// Records that a mailbox has become empty.
    pub(crate) fn leave(&self, arrival: Option<Arrival>) {
        if let (Some(metrics), Some(arrival)) = (&self.metrics, arrival) {
            metrics.waiting.leave(arrival);
        }
    }

    /// Adds one entry.
    pub(crate) fn add(&self, events: usize, bytes: usize) {
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.events.fetch_add(events, Ordering::AcqRel);
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Removes one entry.
    pub(crate) fn remove(&self, events: usize, bytes: usize) {
        self.entries.fetch_sub(1, Ordering::Relaxed);
        self.events.fetch_sub(events, Ordering::AcqRel);
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.relief.notify_one();
    }

    /// Returns `true` if nothing is queued.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.entries.load(Ordering::Relaxed) == 0
            && self.events.load(Ordering::Acquire) == 0
            && self.bytes.load(Ordering::Acquire) == 0
    }

    /// Waits for queue capacity. Cancel-safe.
    pub(crate) async fn room(&self, max_events: usize, max_bytes: usize) {
        loop {
            let events = self.events.load(Ordering::Acquire);
            let bytes = self.bytes.load(Ordering::Acquire);
            // An entry larger than the limit is accepted alone.
            if (events < max_events && bytes < max_bytes) || bytes == 0 {
                return;
            }
            self.relief.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn taken_events_free_capacity() {
        let load = Load::default();
        load.add(2, 10);
        load.room(3, 100).await;
        let waiting = async {
            tokio::join!(load.room(2, 100), async { load.remove(1, 5) });
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), waiting)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn one_event_is_accepted_regardless_of_its_size() {
        Load::default().room(1, 0).await;
    }
}
