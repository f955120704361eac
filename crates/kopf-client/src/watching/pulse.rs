//! The time of the last activity of a stream, shared with other tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The time of the last response or line from the server. Clones share it.
#[derive(Debug, Clone)]
pub struct Pulse {
    anchor: Instant,
    beats: Arc<Beats>,
}

#[derive(Debug, Default)]
struct Beats {
    /// Milliseconds since the anchor.
    last: AtomicU64,
    /// Number of watches that the server has opened.
    opened: AtomicU64,
}

impl Pulse {
    /// Creates a pulse with the current time.
    pub(super) fn new() -> Self {
        Self {
            anchor: Instant::now(),
            beats: Arc::default(),
        }
    }

    /// Stores the current time.
    pub(super) fn beat(&self) {
        let elapsed = self.anchor.elapsed().as_millis();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        self.beats.last.store(elapsed, Ordering::Relaxed);
    }

    /// Stores the current time, and counts an opened watch.
    pub(super) fn open(&self) {
        self.beats.opened.fetch_add(1, Ordering::Relaxed);
        self.beat();
    }

    /// Returns the number of watches that were opened after the first one.
    pub fn reconnects(&self) -> u64 {
        self.beats.opened.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// Returns the time of the last response or line, bookmarks included, with a resolution of 1 ms.
    pub fn last(&self) -> Instant {
        let since = Duration::from_millis(self.beats.last.load(Ordering::Relaxed));
        self.anchor.checked_add(since).unwrap_or(self.anchor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn clones_share_the_time() {
        let pulse = Pulse::new();
        let seen = pulse.clone();
        let began = Instant::now();
        assert_eq!(seen.last(), began);
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(seen.last(), began);
        pulse.beat();
        assert_eq!(seen.last(), Instant::now());
        pulse.open();
        assert_eq!(seen.reconnects(), 0, "the first one is not counted");
        pulse.open();
        assert_eq!(seen.reconnects(), 1);
    }
}
