//! What a connection is doing, for those who decide which of them has to go.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// What a connection is doing.
///
/// All orderings are relaxed: it is a guess about a moment that is over when it is read.
#[derive(Debug)]
pub(super) struct Activity {
    began: Instant,
    /// When something happened for the last time, in milliseconds since the beginning.
    touched: AtomicU64,
    /// How many reviews are under way.
    reviews: AtomicU32,
    /// Whether there was a request at all.
    has_asked: AtomicBool,
    /// Whether a review was answered as it should be: this is not just anybody.
    is_proven: AtomicBool,
}

/// A review that is under way.
#[derive(Debug)]
pub(super) struct UnderWay<'a>(&'a Activity);

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            touched: AtomicU64::new(0),
            reviews: AtomicU32::new(0),
            has_asked: AtomicBool::new(false),
            is_proven: AtomicBool::new(false),
        }
    }

    /// The headers of a request are there.
    pub(super) fn asked(&self) {
        self.has_asked.store(true, Ordering::Relaxed);
        self.touch();
    }

    /// The whole request is there, and it is the operator's turn now.
    pub(super) fn review(&self) -> UnderWay<'_> {
        self.reviews.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }

    /// For how long the client has kept the server waiting; not at all if it is the other way round.
    pub(super) fn silence(&self) -> Option<Duration> {
        if self.reviews.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let touched = Duration::from_millis(self.touched.load(Ordering::Relaxed));
        Some(self.began.elapsed().saturating_sub(touched))
    }

    pub(super) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    pub(super) fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    fn touch(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.touched.store(now, Ordering::Relaxed);
    }
}

impl UnderWay<'_> {
    /// It was answered as it should be.
    pub(super) fn succeeded(&self) {
        self.0.is_proven.store(true, Ordering::Relaxed);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.touch();
        self.0.reviews.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_is_what_the_server_waits_for() {
        let second = Duration::from_secs(1);
        let activity = Activity::new();
        tokio::time::advance(3 * second).await;
        assert_eq!(activity.silence(), Some(3 * second));
        assert!(!activity.has_asked());

        activity.asked();
        assert!(activity.has_asked());
        tokio::time::advance(second).await;
        assert_eq!(activity.silence(), Some(second), "the body is waited for");

        let (first, second_review) = (activity.review(), activity.review());
        tokio::time::advance(second).await;
        assert_eq!(activity.silence(), None);
        drop(first);
        assert_eq!(activity.silence(), None);
        assert!(!activity.is_proven());
        second_review.succeeded();
        drop(second_review);
        assert!(activity.is_proven());
        assert_eq!(activity.silence(), Some(Duration::ZERO));
    }
}
