//! Threads for blocking functions, bounded by the settings.

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kopf_core::sync::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// Default number of threads in addition to one per processor: blocking functions mostly wait.
const EXTRA_THREADS: usize = 32;

/// Time of waiting for a thread after which a warning is logged.
const BUSY_WARNING: Duration = Duration::from_secs(60);

/// A bounded pool of threads. Cheap to clone: clones share the threads.
#[derive(Debug, Clone)]
pub(crate) struct BlockingPool {
    permits: Arc<Semaphore>,
    running: TaskTracker,
    is_warned: Arc<AtomicBool>,
    full: Full,
}

/// The behaviour of a full pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    /// Functions wait for a permit.
    Wait,
    /// Functions exceed the limit.
    Exceed,
}

impl BlockingPool {
    /// Creates a pool with this number of threads; by default, one per processor and 32 more.
    pub(crate) fn new(max_workers: Option<usize>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let permits = max_workers.unwrap_or(processors + EXTRA_THREADS).max(1);
        Self {
            permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
            running: TaskTracker::new(),
            is_warned: Arc::default(),
            full: Full::Wait,
        }
    }

    /// Returns the same pool for functions that must not wait: they exceed the limit if no permit
    /// is free.
    ///
    /// For login handlers, because handlers that wait for the login can hold all permits, and for
    /// cleanup handlers, because abandoned handlers can hold them.
    pub(crate) fn urgent(&self) -> Self {
        Self {
            full: Full::Exceed,
            ..self.clone()
        }
    }

    /// Logs the number of running functions.
    pub(crate) fn report_left(&self) {
        let left = self.running.len();
        if left > 0 {
            tracing::warn!(
                "Blocking handlers are still running: {left}. They cannot be interrupted, and \
                 nothing will be stored of their outcomes."
            );
        }
    }

    /// Waits for a permit for a function. Cancel-safe.
    pub(crate) async fn enter(&self, permit: &ThreadPermit) {
        if self.full == Full::Exceed {
            return permit.try_acquire(&self.permits);
        }
        let mut acquiring = pin!(permit.acquire(&self.permits));
        if timeout(BUSY_WARNING, &mut acquiring).await.is_err() {
            // Logged once, not for each function.
            if !self.is_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "All threads for blocking handlers are busy: {} run, and others wait for more \
                     than {} seconds. See the setting execution.max_workers.",
                    self.running.len(),
                    BUSY_WARNING.as_secs()
                );
            }
            acquiring.await;
        }
    }

    /// Runs a function in a thread. A panic is returned as an error with its payload.
    ///
    /// # Cancellation
    /// A function that has started runs to its end and holds its permit until then.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        permit: ThreadPermit,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::Result<T> {
        if !permit.is_held() {
            self.enter(&permit).await;
        }
        // Dropped even on panics.
        let guard = ReleaseGuard(permit);
        let thread = self.running.spawn_blocking(move || {
            let _guard = guard;
            function()
        });
        match thread.await {
            Ok(value) => Ok(value),
            Err(error) => Err(match error.try_into_panic() {
                Ok(panic) => panic,
                Err(_) => Box::new("the thread was not started: the process is stopping"),
            }),
        }
    }

    /// Waits for other functions of the pool on behalf of a running one, which releases its permit
    /// meanwhile.
    pub(crate) async fn wait<T>(
        &self,
        permit: &ThreadPermit,
        others: impl Future<Output = T>,
    ) -> T {
        permit.release();
        let wait = Wait(permit);
        let value = others.await;
        // The last one of several waits acquires the permit again.
        if wait.is_last() {
            permit.acquire(&self.permits).await;
        }
        value
    }
}

/// The permit of one function: held while it runs, free while it waits for others of the pool.
/// Cheap to clone: clones share the permit.
#[derive(Debug, Clone, Default)]
pub(crate) struct ThreadPermit(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    permit: Option<OwnedSemaphorePermit>,
    waits: usize,
    is_over: bool,
}

impl ThreadPermit {
    async fn acquire(&self, permits: &Arc<Semaphore>) {
        if self.0.lock().is_over {
            return;
        }
        let permit = Arc::clone(permits).acquire_owned().await.ok();
        let mut inner = self.0.lock();
        if !inner.is_over {
            inner.permit = permit;
        }
    }

    fn try_acquire(&self, permits: &Arc<Semaphore>) {
        let permit = Arc::clone(permits).try_acquire_owned().ok();
        let mut inner = self.0.lock();
        if !inner.is_over {
            inner.permit = permit;
        }
    }

    fn is_held(&self) -> bool {
        self.0.lock().permit.is_some()
    }

    fn release(&self) {
        let mut inner = self.0.lock();
        inner.waits = inner.waits.saturating_add(1);
        inner.permit = None;
    }
}

/// Releases the permit permanently when dropped.
struct ReleaseGuard(ThreadPermit);

impl Drop for ReleaseGuard {
    fn drop(&mut self) {
        let mut inner = self.0.0.lock();
        inner.is_over = true;
        inner.permit = None;
    }
}

/// One of the waits of a function.
struct Wait<'a>(&'a ThreadPermit);

impl Wait<'_> {
    fn is_last(&self) -> bool {
        self.0.0.lock().waits <= 1
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut inner = self.0.0.lock();
        inner.waits = inner.waits.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn limit_bounds_concurrency() {
        let pool = BlockingPool::new(Some(2));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let runs = (0..8).map(|_| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            pool.run(ThreadPermit::default(), move || {
                let here = now.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(here, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(5));
                now.fetch_sub(1, Ordering::SeqCst);
            })
        });
        futures::future::join_all(runs).await;
        assert!(most.load(Ordering::SeqCst) <= 2);
    }

    #[tokio::test]
    async fn urgent_functions_exceed_the_limit() {
        let pool = BlockingPool::new(Some(1));
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let mut running = std::pin::pin!(pool.run(ThreadPermit::default(), move || ended.recv()));
        assert!(futures::poll!(&mut running).is_pending());
        assert_eq!(
            pool.urgent()
                .run(ThreadPermit::default(), || 5)
                .await
                .unwrap(),
            5
        );
        assert_eq!(pool.permits.available_permits(), 0);
        drop(end);
        let _ = running.await;
        assert_eq!(
            pool.urgent()
                .run(ThreadPermit::default(), || 5)
                .await
                .unwrap(),
            5
        );
        assert_eq!(pool.permits.available_permits(), 1);
    }

    #[tokio::test]
    async fn panic_is_returned_and_releases_the_permit() {
        let pool = BlockingPool::new(Some(1));
        let panic = pool
            .run(ThreadPermit::default(), || panic!("oops"))
            .await
            .unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"oops"));
        assert_eq!(pool.run(ThreadPermit::default(), || 5).await.unwrap(), 5);
    }

    #[tokio::test]
    async fn waiting_function_releases_its_permit_for_others() {
        let pool = BlockingPool::new(Some(1));
        let (permit, inner) = (ThreadPermit::default(), pool.clone());
        let handle = tokio::runtime::Handle::current();
        let outer = pool.run(permit.clone(), move || {
            handle.block_on(async {
                let children = (0..3).map(|n| inner.run(ThreadPermit::default(), move || n));
                let children = futures::future::join_all(children);
                let values = inner.wait(&permit, children).await;
                assert_eq!(
                    inner.permits.available_permits(),
                    0,
                    "the permit is held again"
                );
                values.into_iter().map(Result::unwrap).sum::<i32>()
            })
        });
        assert_eq!(outer.await.unwrap(), 3);
        assert_eq!(pool.permits.available_permits(), 1);
    }

    #[tokio::test]
    async fn finished_function_holds_no_permit() {
        let pool = BlockingPool::new(Some(1));
        let permit = ThreadPermit::default();
        pool.run(permit.clone(), || ()).await.unwrap();
        assert_eq!(pool.wait(&permit, async { 5 }).await, 5);
        assert_eq!(pool.permits.available_permits(), 1);
    }

    #[tokio::test]
    async fn running_functions_are_reported() {
        let captured = crate::captured::capture(tracing::Level::WARN);
        let pool = BlockingPool::new(None);
        pool.report_left();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let mut running = std::pin::pin!(pool.run(ThreadPermit::default(), move || ended.recv()));
        assert!(futures::poll!(&mut running).is_pending());
        pool.report_left();
        drop(end);
        let _ = running.await;
        pool.report_left();
        let messages = captured.messages(tracing::Level::WARN);
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].starts_with("Blocking handlers are still running: 1."));
    }
}
