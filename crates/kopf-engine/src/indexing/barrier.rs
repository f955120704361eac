//! The barrier: nothing but indexing happens before all indices are filled.
//!
//! Whoever may still have something to be indexed holds a [`Blocker`]: the orchestration until all
//! first streams are started, a stream of an indexed kind until its first listing is over, an
//! object of such a kind until its index handlers were called once. When there are none, the barrier
//! is lifted for all who wait. A stream that has seen it lifted does not wait again, whatever comes
//! later; streams of kinds that appear later wait for each other only.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Cheap to clone: clones are the same barrier.
#[derive(Debug, Clone, Default)]
pub(crate) struct Barrier(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    blockers: AtomicUsize,
    lifted: Notify,
}

/// Keeps the barrier closed until it is dropped.
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

    /// Waits for a moment without blockers. It may be over again when this returns: in a busy
    /// cluster, it would never last. Cancel-safe.
    pub(crate) async fn lifted(&self) {
        let mut lifted = pin!(self.0.lifted.notified());
        // From here on, no moment is missed.
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
    async fn it_is_lifted_when_the_last_blocker_is_gone() {
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
            // For those who wait, it was lifted nevertheless.
            let _later = barrier.block();
            tokio::task::yield_now().await;
        });
        assert!(barrier.is_lifted());
    }
}
