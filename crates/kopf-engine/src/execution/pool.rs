//! Threads for blocking functions, bounded by the settings.

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// Default number of threads in addition to one per processor: blocking functions mostly wait.
const AT_LEAST: usize = 32;

/// Time of waiting for a thread after which a warning is logged.
const BUSY: Duration = Duration::from_secs(60);

/// A bounded pool of threads. Cheap to clone: clones share the threads.
#[derive(Debug, Clone)]
pub(crate) struct BlockingPool {
    places: Arc<Semaphore>,
    running: TaskTracker,
    is_warned: Arc<AtomicBool>,
    full: Full,
}

/// The behaviour of a full pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    /// Functions wait for a place.
    Wait,
    /// Functions exceed the limit.
    Exceed,
}

impl BlockingPool {
    /// Creates a pool with this number of threads; by default, one per processor and 32 more.
    pub(crate) fn new(max_workers: Option<usize>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let places = max_workers.unwrap_or(processors + AT_LEAST).max(1);
        Self {
            places: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            running: TaskTracker::new(),
            is_warned: Arc::default(),
            full: Full::Wait,
        }
    }

    /// Returns the same pool for functions that must not wait: they exceed the limit if no place is
    /// free.
    ///
    /// For login handlers, because handlers that wait for the login can hold all places, and for
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

    /// Waits for a place for a function. Cancel-safe.
    pub(crate) async fn enter(&self, seat: &Seat) {
        if self.full == Full::Exceed {
            return seat.try_take(&self.places);
        }
        let mut taking = pin!(seat.take(&self.places));
        if timeout(BUSY, &mut taking).await.is_err() {
            // Logged once, not for each function.
            if !self.is_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "All threads for blocking handlers are busy: {} run, and others wait for more \
                     than {} seconds. See the setting execution.max_workers.",
                    self.running.len(),
                    BUSY.as_secs()
                );
            }
            taking.await;
        }
    }

    /// Runs a function in a thread. A panic is returned as an error with its payload.
    ///
    /// # Cancellation
    /// A function that has started runs to its end and holds its place until then.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        seat: Seat,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::Result<T> {
        if !seat.is_taken() {
            self.enter(&seat).await;
        }
        // Dropped even on panics.
        let leaving = Leaving(seat);
        let thread = self.running.spawn_blocking(move || {
            let _leaving = leaving;
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

    /// Waits for other functions of the pool on behalf of a running one, which releases its place
    /// meanwhile.
    pub(crate) async fn wait<T>(&self, seat: &Seat, others: impl Future<Output = T>) -> T {
        seat.stand_up();
        let standing = Standing(seat);
        let value = others.await;
        // The last one of several waits acquires the place again.
        if standing.is_last() {
            seat.take(&self.places).await;
        }
        value
    }
}

/// The place of one function: held while it runs, free while it waits for others of the pool. Cheap
/// to clone: clones share the place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seat(Arc<Mutex<Place>>);

#[derive(Debug, Default)]
struct Place {
    permit: Option<OwnedSemaphorePermit>,
    waits: usize,
    is_over: bool,
}

impl Seat {
    async fn take(&self, places: &Arc<Semaphore>) {
        if self.lock().is_over {
            return;
        }
        let permit = Arc::clone(places).acquire_owned().await.ok();
        let mut place = self.lock();
        if !place.is_over {
            place.permit = permit;
        }
    }

    fn try_take(&self, places: &Arc<Semaphore>) {
        let permit = Arc::clone(places).try_acquire_owned().ok();
        let mut place = self.lock();
        if !place.is_over {
            place.permit = permit;
        }
    }

    fn is_taken(&self) -> bool {
        self.lock().permit.is_some()
    }

    fn stand_up(&self) {
        let mut place = self.lock();
        place.waits = place.waits.saturating_add(1);
        place.permit = None;
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases the place permanently when dropped.
struct Leaving(Seat);

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut place = self.0.lock();
        place.is_over = true;
        place.permit = None;
    }
}

/// One of the waits of a function.
struct Standing<'a>(&'a Seat);

impl Standing<'_> {
    fn is_last(&self) -> bool {
        self.0.lock().waits <= 1
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        let mut place = self.0.lock();
        place.waits = place.waits.saturating_sub(1);
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
            pool.run(Seat::default(), move || {
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
        let mut running = std::pin::pin!(pool.run(Seat::default(), move || ended.recv()));
        assert!(futures::poll!(&mut running).is_pending());
        assert_eq!(pool.urgent().run(Seat::default(), || 5).await.unwrap(), 5);
        assert_eq!(pool.places.available_permits(), 0);
        drop(end);
        let _ = running.await;
        assert_eq!(pool.urgent().run(Seat::default(), || 5).await.unwrap(), 5);
        assert_eq!(pool.places.available_permits(), 1);
    }

    #[tokio::test]
    async fn panic_is_returned_and_frees_the_place() {
        let pool = BlockingPool::new(Some(1));
        let panic = pool
            .run(Seat::default(), || panic!("oops"))
            .await
            .unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"oops"));
        assert_eq!(pool.run(Seat::default(), || 5).await.unwrap(), 5);
    }

    #[tokio::test]
    async fn waiting_function_frees_its_place_for_others() {
        let pool = BlockingPool::new(Some(1));
        let (seat, inner) = (Seat::default(), pool.clone());
        let handle = tokio::runtime::Handle::current();
        let outer = pool.run(seat.clone(), move || {
            handle.block_on(async {
                let children = (0..3).map(|n| inner.run(Seat::default(), move || n));
                let children = futures::future::join_all(children);
                let values = inner.wait(&seat, children).await;
                assert_eq!(
                    inner.places.available_permits(),
                    0,
                    "the place is held again"
                );
                values.into_iter().map(Result::unwrap).sum::<i32>()
            })
        });
        assert_eq!(outer.await.unwrap(), 3);
        assert_eq!(pool.places.available_permits(), 1);
    }

    #[tokio::test]
    async fn finished_function_takes_no_place() {
        let pool = BlockingPool::new(Some(1));
        let seat = Seat::default();
        pool.run(seat.clone(), || ()).await.unwrap();
        assert_eq!(pool.wait(&seat, async { 5 }).await, 5);
        assert_eq!(pool.places.available_permits(), 1);
    }

    #[tokio::test]
    async fn running_functions_are_reported() {
        let captured = crate::captured::capture(tracing::Level::WARN);
        let pool = BlockingPool::new(None);
        pool.report_left();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let mut running = std::pin::pin!(pool.run(Seat::default(), move || ended.recv()));
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
