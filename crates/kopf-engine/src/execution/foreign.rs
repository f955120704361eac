//! Foreign work, which is cancelled by request and awaited.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kopf_core::outcome::HandlerError;
use tokio::time::{sleep, timeout};

use super::call::panicked;
use crate::invocation::{Cancel, HandlerResult, Leftovers, Stopped};
use crate::logger::ObjectLogger;

/// Minimum time for work to end after its timeout.
const MIN_GRACE: Duration = Duration::from_secs(1);

/// Running foreign work. If it is dropped before its end, it is cancelled and adopted by
/// [`Leftovers`].
pub(super) struct ForeignWork {
    done: Option<BoxFuture<'static, HandlerResult>>,
    cancel: Option<Cancel>,
    leftovers: Leftovers,
}

/// The limits of foreign work.
pub(super) struct Limits<'a> {
    /// The time until the handler's timeout.
    pub(super) time_left: Option<Duration>,
    /// The stop flag of a daemon or a timer.
    pub(super) stopped: Option<&'a Stopped>,
    pub(super) logger: &'a ObjectLogger,
}

/// The reason for a cancellation.
enum Cancelled {
    TimedOut(Duration),
    Stopped,
}

impl ForeignWork {
    pub(super) fn new(
        done: BoxFuture<'static, HandlerResult>,
        cancel: Option<Cancel>,
        leftovers: &Leftovers,
    ) -> Self {
        Self {
            done: Some(done),
            cancel,
            leftovers: leftovers.clone(),
        }
    }

    /// Waits until the work ends, or until it is cancelled and the stage has passed.
    pub(super) async fn run(mut self, limits: Limits<'_>) -> HandlerResult {
        if self.cancel.is_none() {
            return self.done().await;
        }
        let reason = tokio::select! {
            biased;
            result = self.done() => return result,
            limit = elapsed(limits.time_left) => Cancelled::TimedOut(limit),
            () = cancelled(limits.stopped) => Cancelled::Stopped,
        };
        if let Some(cancel) = self.cancel.take() {
            cancel();
        }
        match reason {
            Cancelled::TimedOut(limit) => {
                if timeout(limit.max(MIN_GRACE), self.done()).await.is_err() {
                    limits.logger.local().warning(
                        "The handler has timed out and was cancelled, but is still running. \
                         It is abandoned.",
                    );
                }
                Err(HandlerError::TimedOut)
            }
            Cancelled::Stopped => tokio::select! {
                biased;
                result = self.done() => result,
                () = given_up(limits.stopped) => Err(HandlerError::Cancelled),
            },
        }
    }

    /// Waits until the work ends. Cancel-safe.
    async fn done(&mut self) -> HandlerResult {
        let Some(done) = &mut self.done else {
            return std::future::pending().await;
        };
        let result = AssertUnwindSafe(done).catch_unwind().await;
        self.done = None;
        result.unwrap_or_else(|panic| Err(panicked(&*panic)))
    }
}

impl Drop for ForeignWork {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            if let Some(cancel) = self.cancel.take() {
                cancel();
            }
            self.leftovers.adopt(done.map(drop));
        }
    }
}

/// Waits for this time and returns it.
async fn elapsed(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            sleep(limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}

async fn cancelled(stopped: Option<&Stopped>) {
    match stopped {
        Some(stopped) => stopped.cancelled().await,
        None => std::future::pending().await,
    }
}

async fn given_up(stopped: Option<&Stopped>) {
    match stopped {
        Some(stopped) => stopped.given_up().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kopf_core::background::StopReason;
    use kopf_core::reference::ObjectReference;
    use tokio::sync::Notify;
    use tokio::time::Instant;

    use super::*;

    /// Work that ends with this delay after its cancellation.
    struct Fixture {
        cancels: Arc<AtomicUsize>,
        leftovers: Leftovers,
        logger: ObjectLogger,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                cancels: Arc::default(),
                leftovers: Leftovers::default(),
                logger: ObjectLogger::new(Arc::new(ObjectReference::default()), None),
            }
        }

        fn work(&self, lag: Duration) -> ForeignWork {
            let (asked, cancels) = (Arc::new(Notify::new()), Arc::clone(&self.cancels));
            let asking = Arc::clone(&asked);
            let done = async move {
                asked.notified().await;
                sleep(lag).await;
                Err(HandlerError::Cancelled)
            };
            let cancel = move || {
                cancels.fetch_add(1, Ordering::SeqCst);
                asking.notify_one();
            };
            ForeignWork::new(done.boxed(), Some(Box::new(cancel)), &self.leftovers)
        }

        fn limits<'a>(
            &'a self,
            time_left: Option<Duration>,
            stopped: Option<&'a Stopped>,
        ) -> Limits<'a> {
            Limits {
                time_left,
                stopped,
                logger: &self.logger,
            }
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn timed_out_work_is_cancelled_and_awaited() {
        let (fixture, begun) = (Fixture::new(), Instant::now());
        let result = fixture.work(2 * SECOND);
        let result = result.run(fixture.limits(Some(10 * SECOND), None)).await;
        assert_eq!(result, Err(HandlerError::TimedOut));
        assert_eq!(begun.elapsed(), 12 * SECOND);
        assert_eq!(fixture.cancels.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_ignores_its_timeout_is_abandoned() {
        let (fixture, begun) = (Fixture::new(), Instant::now());
        let result = fixture.work(1000 * SECOND);
        let result = result.run(fixture.limits(Some(10 * SECOND), None)).await;
        assert_eq!(result, Err(HandlerError::TimedOut));
        assert_eq!(begun.elapsed(), 20 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_work_is_awaited_until_it_is_abandoned() {
        let (fixture, begun, stopped) = (Fixture::new(), Instant::now(), Stopped::new());
        stopped.set(StopReason::DAEMON_CANCELLED);
        let work = fixture.work(2 * SECOND);
        let result = work.run(fixture.limits(None, Some(&stopped))).await;
        assert_eq!(result, Err(HandlerError::Cancelled));
        assert_eq!(begun.elapsed(), 2 * SECOND);

        let work = fixture.work(1000 * SECOND);
        let running = work.run(fixture.limits(None, Some(&stopped)));
        let abandoning = async {
            sleep(5 * SECOND).await;
            stopped.set(StopReason::DAEMON_ABANDONED);
        };
        let (result, ()) = tokio::join!(running, abandoning);
        assert_eq!(result, Err(HandlerError::Cancelled));
        assert_eq!(begun.elapsed(), 7 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_work_is_cancelled_and_awaited_later() {
        let (fixture, begun) = (Fixture::new(), Instant::now());
        drop(fixture.work(2 * SECOND));
        assert_eq!(fixture.cancels.load(Ordering::SeqCst), 1);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        fixture.leftovers.settle().await;
        assert_eq!(begun.elapsed(), 2 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_cannot_be_cancelled_is_never_interrupted() {
        let (fixture, begun, stopped) = (Fixture::new(), Instant::now(), Stopped::new());
        stopped.set(StopReason::DAEMON_CANCELLED | StopReason::DAEMON_ABANDONED);
        let done = async {
            sleep(60 * SECOND).await;
            Ok(None)
        };
        let work = ForeignWork::new(done.boxed(), None, &fixture.leftovers);
        let result = work.run(fixture.limits(Some(SECOND), Some(&stopped))).await;
        assert_eq!(result, Ok(None));
        assert_eq!(begun.elapsed(), 60 * SECOND);
    }
}
