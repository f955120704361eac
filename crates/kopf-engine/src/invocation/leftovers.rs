//! Foreign work without a caller.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Time limit for the work to end after the operator has stopped: less than the 5 seconds after
/// which hung tasks of the operator are aborted.
const EXIT_GRACE: Duration = Duration::from_secs(3);

/// Foreign work that was cancelled because its caller is gone, and tasks of a host. Awaited before
/// the operator ends. Cheap to clone: clones share the work.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leftovers {
    tracker: TaskTracker,
    abort: CancellationToken,
}

impl Leftovers {
    /// Awaits this work until it ends or until [`settle`](Self::settle) abandons it.
    pub(crate) fn adopt(&self, work: impl Future<Output = ()> + Send + 'static) {
        // Outside of a runtime nothing can be awaited: the process is about to exit.
        if let Ok(runtime) = Handle::try_current() {
            let work = self.abort.clone().run_until_cancelled_owned(work);
            drop(self.tracker.spawn_on(work, &runtime));
        }
    }

    /// Returns a token that counts as work until it is dropped.
    pub(crate) fn token(&self) -> TaskTrackerToken {
        self.tracker.token()
    }

    /// Waits until all work has ended, for at most 3 seconds. Then drops the rest and logs a
    /// warning.
    pub(crate) async fn settle(&self) {
        self.tracker.close();
        if timeout(EXIT_GRACE, self.tracker.wait()).await.is_err() {
            let left = self.tracker.len();
            tracing::warn!(
                "Handlers outside of the engine are still running: {left}. They were cancelled \
                 {} seconds ago, and their results will not be stored.",
                EXIT_GRACE.as_secs()
            );
            self.abort.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::captured::capture;

    #[tokio::test(start_paused = true)]
    async fn work_without_a_caller_is_awaited_for_some_time() {
        let captured = capture(tracing::Level::WARN);
        let (leftovers, begun) = (Leftovers::default(), Instant::now());
        leftovers.adopt(tokio::time::sleep(Duration::from_secs(2)));
        leftovers.settle().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(2));
        assert!(captured.messages(tracing::Level::WARN).is_empty());
        leftovers.adopt(std::future::pending());
        leftovers.settle().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
        let messages = captured.messages(tracing::Level::WARN);
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains("still running: 1."));
        leftovers.settle().await;
        assert_eq!(
            begun.elapsed(),
            Duration::from_secs(5),
            "the rest was dropped"
        );
    }
}
