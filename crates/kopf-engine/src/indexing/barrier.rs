//! The barrier that delays handlers until all indices are filled.
//!
//! [`Blocker`]s are held by the orchestration until the first streams are started, by a stream of
//! an indexed resource until its first listing is complete, and by an object of such a resource
//! until its index handlers have been called once. When the last blocker is dropped, the barrier is
//! lifted for all waiting streams. A stream does not wait again after that; streams of resources
//! that appear later wait only for each other.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The barrier. Cheap to clone: clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Barrier(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    blockers: AtomicUsize,
    lifted: Notify,
}

/// Keeps the barrier closed until dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Blocker(Barrier);

impl Barrier {
    pub(crate) fn block(&self) -> Blocker {
        self.0.blockers.fetch_add(1, Ordering::SeqCst);
        Blocker(self.clone())
    }

    pub(crate) fn is_lifted(&self) -> bool {
        self.0.blockers.load(Ordering::SeqCst) == 0
    }

    /// Waits until the number of blockers is zero. New ones may exist when this returns.
    /// Cancel-safe.
    pub(crate) async fn lifted(&self) {
        let mut lifted = pin!(self.0.lifted.notified());
        // Subscribed before the check, so that no notification is missed.
        lifted.as_mut().enable();
        if !self.is_lifted() {
            lifted.await;
        }
    }
}

impl Drop for Blocker {
    fn drop(&mut self) {
        if self.0.0.blockers.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.0.lifted.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn barrier_is_lifted_when_the_last_blocker_is_dropped() {
        let barrier = Barrier::default();
        barrier.lifted().await;
        let (one, other) = (barrier.block(), barrier.block());
        drop(one);
        assert!(!barrier.is_lifted());
        let waiting = timeout(Duration::from_secs(1), barrier.lifted());
        assert!(waiting.await.is_err());
        let waiting = barrier.lifted();
        tokio::join!(waiting, async {
            tokio::task::yield_now().await;
            drop(other);
            // Waiting streams are notified even if the barrier is closed again.
            let _later = barrier.block();
            tokio::task::yield_now().await;
        });
        assert!(barrier.is_lifted());
    }
}
