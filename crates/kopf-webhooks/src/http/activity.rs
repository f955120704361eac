//! Activity of a connection, as a basis for eviction.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Time without data of a body after which the connection counts as stalled.
const STALLED: Duration = Duration::from_secs(1);

/// Activity of a connection.
///
/// All orderings are relaxed: the values are estimates, which are outdated when they are read.
#[derive(Debug)]
pub(super) struct Activity {
    began: Instant,
    /// Time of the last activity, in milliseconds since the beginning.
    touched: AtomicU64,
    /// Number of reviews under way.
    reviews: AtomicU32,
    /// `true` after the first request.
    has_asked: AtomicBool,
    /// Number of completed reviews.
    answered: AtomicU32,
    /// `true` if the client has a verified certificate.
    is_verified: AtomicBool,
    /// Bytes held by incomplete bodies.
    holding: AtomicUsize,
    /// Time of the last data of a body, in milliseconds since the beginning.
    fed: AtomicU64,
    /// Number of bodies that wait for memory.
    starved: AtomicU32,
    dismissed: CancellationToken,
}

/// Guard of a body that waits for memory.
#[derive(Debug)]
pub(super) struct StarvedGuard<'a>(&'a Activity);

/// Guard of a review under way.
#[derive(Debug)]
pub(super) struct ReviewGuard<'a>(&'a Activity);

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            touched: AtomicU64::new(0),
            reviews: AtomicU32::new(0),
            has_asked: AtomicBool::new(false),
            answered: AtomicU32::new(0),
            is_verified: AtomicBool::new(false),
            holding: AtomicUsize::new(0),
            fed: AtomicU64::new(0),
            starved: AtomicU32::new(0),
            dismissed: CancellationToken::new(),
        }
    }

    /// Records the headers of a request.
    pub(super) fn asked(&self) {
        self.has_asked.store(true, Ordering::Relaxed);
        self.touch();
    }

    /// Records the beginning of a review.
    pub(super) fn review(&self) -> ReviewGuard<'_> {
        self.reviews.fetch_add(1, Ordering::Relaxed);
        ReviewGuard(self)
    }

    /// Returns the time since the last activity; `None` if a review is under way.
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

    /// Records a verified certificate of the client.
    pub(super) fn verified(&self) {
        self.is_verified.store(true, Ordering::Relaxed);
    }

    /// Returns the rank of the client; zero for unknown ones. It grows with the logarithm of completed
    /// reviews, since a few are easy to get; a verified certificate has the highest rank.
    pub(super) fn rank(&self) -> u32 {
        if self.is_verified.load(Ordering::Relaxed) {
            return u32::MAX;
        }
        let answered = self.answered.load(Ordering::Relaxed);
        answered.checked_ilog2().map_or(0, |power| power + 1)
    }

    /// Records memory held by a body.
    pub(super) fn hold(&self, bytes: usize) {
        self.holding.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records memory that is released, or a body that is complete.
    pub(super) fn release(&self, bytes: usize) {
        self.holding.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the memory held by incomplete bodies.
    pub(super) fn holding(&self) -> usize {
        self.holding.load(Ordering::Relaxed)
    }

    /// Records data of a body.
    pub(super) fn fed(&self) {
        self.fed.store(self.now(), Ordering::Relaxed);
    }

    /// Records a body that waits for memory.
    pub(super) fn starved(&self) -> StarvedGuard<'_> {
        self.starved.fetch_add(1, Ordering::Relaxed);
        StarvedGuard(self)
    }

    /// Returns `true` if the client has not sent data for long, while the server was ready for it.
    pub(super) fn is_stalled(&self) -> bool {
        let fed = Duration::from_millis(self.fed.load(Ordering::Relaxed));
        let silence = self.began.elapsed().saturating_sub(fed);
        silence >= STALLED && self.starved.load(Ordering::Relaxed) == 0
    }

    /// Closes the connection.
    pub(super) fn dismiss(&self) {
        self.dismissed.cancel();
    }

    #[cfg(test)]
    pub(super) fn is_dismissed(&self) -> bool {
        self.dismissed.is_cancelled()
    }

    /// Waits until the connection is to be closed.
    pub(super) async fn dismissed(&self) {
        self.dismissed.cancelled().await;
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn touch(&self) {
        self.touched.store(self.now(), Ordering::Relaxed);
    }
}

impl Drop for StarvedGuard<'_> {
    fn drop(&mut self) {
        self.0.fed();
        self.0.starved.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ReviewGuard<'_> {
    /// Records the completion of the review.
    pub(super) fn succeeded(&self) {
        self.0.answered.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for ReviewGuard<'_> {
    fn drop(&mut self) {
        self.0.touch();
        self.0.reviews.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_is_counted_while_the_server_waits() {
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
        assert_eq!(activity.rank(), 0);
        second_review.succeeded();
        drop(second_review);
        assert_eq!(activity.rank(), 1);
        assert_eq!(activity.silence(), Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn rank_grows_with_reviews_and_certificates() {
        let activity = Activity::new();
        let mut ranks = Vec::new();
        for _ in 0..5 {
            ranks.push(activity.rank());
            activity.review().succeeded();
        }
        assert_eq!(ranks, [0, 1, 2, 2, 3]);
        let verified = Activity::new();
        verified.verified();
        assert!(verified.rank() > activity.rank());
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_wait_for_memory_are_not_stalled() {
        let activity = Activity::new();
        tokio::time::advance(STALLED).await;
        assert!(activity.is_stalled());
        activity.fed();
        assert!(!activity.is_stalled());
        let starved = activity.starved();
        tokio::time::advance(STALLED).await;
        assert!(!activity.is_stalled());
        drop(starved);
        assert!(!activity.is_stalled());
        tokio::time::advance(STALLED).await;
        assert!(activity.is_stalled());
    }
}
