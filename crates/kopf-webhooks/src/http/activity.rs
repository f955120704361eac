//! What a connection is doing, for those who decide which of them has to go.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long the next piece of a body can take, when others wait for the memory.
const STALLED: Duration = Duration::from_secs(1);

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
    /// How many reviews were answered as they should be.
    answered: AtomicU32,
    /// Whether the client has shown a certificate that was verified.
    is_verified: AtomicBool,
    /// How much memory is held by bodies that have not come in full.
    holding: AtomicUsize,
    /// When a piece of a body came for the last time, in milliseconds since the beginning.
    fed: AtomicU64,
    /// How many bodies wait for memory.
    starved: AtomicU32,
    dismissed: CancellationToken,
}

/// A body that waits for memory.
#[derive(Debug)]
pub(super) struct Starved<'a>(&'a Activity);

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
            answered: AtomicU32::new(0),
            is_verified: AtomicBool::new(false),
            holding: AtomicUsize::new(0),
            fed: AtomicU64::new(0),
            starved: AtomicU32::new(0),
            dismissed: CancellationToken::new(),
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

    /// The client has shown a certificate that was verified.
    pub(super) fn verified(&self) {
        self.is_verified.store(true, Ordering::Relaxed);
    }

    /// How well the client is known; not at all if it is zero. A single answer is easy to get, so
    /// many of them mean more than a few, and a certificate more than all of them.
    pub(super) fn standing(&self) -> u32 {
        if self.is_verified.load(Ordering::Relaxed) {
            return u32::MAX;
        }
        let answered = self.answered.load(Ordering::Relaxed);
        answered.checked_ilog2().map_or(0, |power| power + 1)
    }

    /// Memory is held for a body.
    pub(super) fn hold(&self, bytes: usize) {
        self.holding.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Memory is not held any more, or the body is there.
    pub(super) fn release(&self, bytes: usize) {
        self.holding.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How much memory is held by bodies that have not come in full.
    pub(super) fn holding(&self) -> usize {
        self.holding.load(Ordering::Relaxed)
    }

    /// A piece of a body has come.
    pub(super) fn fed(&self) {
        self.fed.store(self.now(), Ordering::Relaxed);
    }

    /// A body has to wait for memory from now on.
    pub(super) fn starved(&self) -> Starved<'_> {
        self.starved.fetch_add(1, Ordering::Relaxed);
        Starved(self)
    }

    /// Whether pieces of bodies are missing for long, and not by the server's fault.
    pub(super) fn is_stalled(&self) -> bool {
        let fed = Duration::from_millis(self.fed.load(Ordering::Relaxed));
        let silence = self.began.elapsed().saturating_sub(fed);
        silence >= STALLED && self.starved.load(Ordering::Relaxed) == 0
    }

    /// Ends the connection.
    pub(super) fn dismiss(&self) {
        self.dismissed.cancel();
    }

    #[cfg(test)]
    pub(super) fn is_dismissed(&self) -> bool {
        self.dismissed.is_cancelled()
    }

    /// Waits until the connection is to be ended.
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

impl Drop for Starved<'_> {
    fn drop(&mut self) {
        self.0.fed();
        self.0.starved.fetch_sub(1, Ordering::Relaxed);
    }
}

impl UnderWay<'_> {
    /// It was answered as it should be.
    pub(super) fn succeeded(&self) {
        self.0.answered.fetch_add(1, Ordering::Relaxed);
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
        assert_eq!(activity.standing(), 0);
        second_review.succeeded();
        drop(second_review);
        assert_eq!(activity.standing(), 1);
        assert_eq!(activity.silence(), Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn clients_are_known_by_their_certificates_or_by_many_answers() {
        let activity = Activity::new();
        let mut standings = Vec::new();
        for _ in 0..5 {
            standings.push(activity.standing());
            activity.review().succeeded();
        }
        assert_eq!(standings, [0, 1, 2, 2, 3]);
        let verified = Activity::new();
        verified.verified();
        assert!(verified.standing() > activity.standing());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_the_server_is_not_stalled() {
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
