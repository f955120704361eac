//! How much waits in the queues of one stream. When it is too much, the stream is read more slowly;
//! nothing is dropped.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Shared by a stream and the mailboxes of its objects.
#[derive(Debug, Default)]
pub(crate) struct Load {
    events: AtomicUsize,
    bytes: AtomicUsize,
    relief: Notify,
}

impl Load {
    pub(crate) fn add(&self, events: usize, bytes: usize) {
        self.events.fetch_add(events, Ordering::AcqRel);
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(crate) fn remove(&self, events: usize, bytes: usize) {
        self.events.fetch_sub(events, Ordering::AcqRel);
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.relief.notify_one();
    }

    /// Whether nothing waits.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.events.load(Ordering::Acquire) == 0 && self.bytes.load(Ordering::Acquire) == 0
    }

    /// Waits until there is room. Cancel-safe.
    pub(crate) async fn room(&self, max_events: usize, max_bytes: usize) {
        loop {
            let events = self.events.load(Ordering::Acquire);
            let bytes = self.bytes.load(Ordering::Acquire);
            // One that alone is larger than the limit passes, too.
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
    async fn room_comes_back_when_events_are_taken() {
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
    async fn one_event_passes_however_large_it_is() {
        Load::default().room(1, 0).await;
    }
}
