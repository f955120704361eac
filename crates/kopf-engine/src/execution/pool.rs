//! Threads for functions that block: as many at once as the settings say.

use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// As many threads as functions that mostly wait for something need on a small machine.
const AT_LEAST: usize = 32;

/// Cheap to clone: clones share the threads.
#[derive(Debug, Clone)]
pub(crate) struct BlockingPool {
    places: Arc<Semaphore>,
    running: TaskTracker,
}

impl BlockingPool {
    /// With at most so many threads; by default, as many as there are processors and some more.
    pub(crate) fn new(max_workers: Option<usize>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let places = max_workers.unwrap_or(processors + AT_LEAST).max(1);
        Self {
            places: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            running: TaskTracker::new(),
        }
    }

    /// Runs a function in a thread. Its panic is an error with the payload of the panic.
    ///
    /// # Cancellation
    /// A function that has begun runs to its end; its place is taken until then.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::Result<T> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let thread = self.running.spawn_blocking(move || {
            let result = function();
            drop(place);
            result
        });
        match thread.await {
            Ok(value) => Ok(value),
            Err(error) => Err(match error.try_into_panic() {
                Ok(panic) => panic,
                Err(_) => Box::new("the thread was not started: the process is stopping"),
            }),
        }
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
            pool.run(move || {
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
        let panic = pool.run(|| panic!("oops")).await.unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"oops"));
        assert_eq!(pool.run(|| 5).await.unwrap(), 5);
    }
}
