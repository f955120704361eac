//! Threads for blocking functions, bounded by the settings.

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// Number of threads beyond one per processor, by default: blocking functions mostly wait.
const AT_LEAST: usize = 32;

/// Time of waiting for a thread after which a warning is logged.
const BUSY: Duration = Duration::from_secs(60);

/// A bounded pool of threads. Cheap to clone: clones share the threads.
#[derive(Debug, Clone)]
pub(crate) struct BlockingPool {
    places: Arc<Semaphore>,
    running: TaskTracker,
    is_warned: Arc<AtomicBool>,
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
        }
    }

    /// Logs the number of functions that still run.
    pub(crate) fn report_left(&self) {
        let left = self.running.len();
        if left > 0 {
            tracing::warn!(
                "Blocking handlers are still running: {left}. They cannot be interrupted, and \
                 nothing will be stored of their outcomes."
            );
        }
    }

    /// Waits for a place for a function that is to be run. Cancel-safe.
    pub(crate) async fn enter(&self, seat: &Seat) {
        let mut taking = pin!(seat.take(&self.places));
        if timeout(BUSY, &mut taking).await.is_err() {
            // Logged once: it would be repeated for each function.
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

    /// Runs a function in a thread. Its panic is an error with the payload of the panic.
    ///
    /// # Cancellation
    /// A function that has begun runs to its end; its place is taken until then.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        seat: Seat,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::Result<T> {
        if !seat.is_taken() {
            self.enter(&seat).await;
        }
        // Also when it panics.
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

    /// Waits for others on behalf of a function that runs: meanwhile, its place is free, so that
    /// those it waits for can have it.
    pub(crate) async fn wait<T>(&self, seat: &Seat, others: impl Future<Output = T>) -> T {
        seat.stand_up();
        let standing = Standing(seat);
        let value = others.await;
        // The last one of several waits takes the place again.
        if standing.is_last() {
            seat.take(&self.places).await;
        }
        value
    }
}

/// The place of one function: taken while it runs, free while it waits for others of the pool.
/// Cheap to clone: clones are the same place.
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

/// Ends the stay.
struct Leaving(Seat);

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut place = self.0.lock();
        place.is_over = true;
        place.permit = None;
    }
}

/// One wait.
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
    async fn no_more_run_at_once_than_allowed() {
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
    async fn a_panic_comes_back_and_frees_its_place() {
        let pool = BlockingPool::new(Some(1));
        let panic = pool
            .run(Seat::default(), || panic!("oops"))
            .await
            .unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"oops"));
        assert_eq!(pool.run(Seat::default(), || 5).await.unwrap(), 5);
    }

    #[tokio::test]
    async fn whoever_waits_for_others_leaves_its_place_to_them() {
        let pool = BlockingPool::new(Some(1));
        let (seat, inner) = (Seat::default(), pool.clone());
        let handle = tokio::runtime::Handle::current();
        let outer = pool.run(seat.clone(), move || {
            handle.block_on(async {
                let children = (0..3).map(|n| inner.run(Seat::default(), move || n));
                let children = futures::future::join_all(children);
                let values = inner.wait(&seat, children).await;
                assert_eq!(inner.places.available_permits(), 0, "it is back");
                values.into_iter().map(Result::unwrap).sum::<i32>()
            })
        });
        assert_eq!(outer.await.unwrap(), 3);
        assert_eq!(pool.places.available_permits(), 1);
    }

    #[tokio::test]
    async fn a_place_is_not_taken_by_whoever_is_over() {
        let pool = BlockingPool::new(Some(1));
        let seat = Seat::default();
        pool.run(seat.clone(), || ()).await.unwrap();
        assert_eq!(pool.wait(&seat, async { 5 }).await, 5);
        assert_eq!(pool.places.available_permits(), 1);
    }

    #[tokio::test]
    async fn those_that_are_left_are_counted() {
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
