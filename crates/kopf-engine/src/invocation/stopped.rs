//! The stop flag of daemons and timers.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar};
use std::time::Duration;

use kopf_core::background::StopReason;
use kopf_core::sync::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// The stop flag of a daemon or timer, with the reasons. Cheap to clone: clones share the flag.
///
/// ```
/// use kopf_engine::daemons::StopReason;
/// use kopf_engine::invocation::Stopped;
///
/// let stopped = Stopped::new();
/// assert!(!stopped.is_set());
/// stopped.set(StopReason::RESOURCE_DELETED);
/// assert!(stopped.wait_blocking(None));
/// assert!(stopped.reason().contains(StopReason::RESOURCE_DELETED));
/// ```
#[derive(Clone)]
pub struct Stopped(Arc<Flag>);

struct Flag {
    reasons: AtomicU8,
    /// The time of the first reason.
    since: Mutex<Option<Instant>>,
    /// Wakes waiting tasks.
    tasks: Notify,
    /// Wakes waiting threads; used with the mutex above.
    threads: Condvar,
    /// `true` if the function runs outside of the engine.
    foreign: AtomicBool,
}

impl Default for Stopped {
    fn default() -> Self {
        Self::new()
    }
}

impl Stopped {
    /// Creates a flag that is not set.
    pub fn new() -> Self {
        Self(Arc::new(Flag {
            reasons: AtomicU8::new(0),
            since: Mutex::new(None),
            tasks: Notify::new(),
            threads: Condvar::new(),
            foreign: AtomicBool::new(false),
        }))
    }

    /// Returns `true` if the daemon or timer must end.
    pub fn is_set(&self) -> bool {
        !self.reason().is_empty()
    }

    /// Returns the reasons so far; more can be added later.
    pub fn reason(&self) -> StopReason {
        StopReason::from_bits(self.0.reasons.load(Ordering::SeqCst))
    }

    /// Waits until the flag is set or the limit has passed. Returns `true` if it is set.
    /// Cancel-safe.
    pub async fn wait(&self, limit: Option<Duration>) -> bool {
        let waiting = self.until(|reason| !reason.is_empty());
        match limit {
            None => waiting.await,
            Some(limit) => drop(timeout(limit, waiting).await),
        }
        self.is_set()
    }

    /// Like [`wait`](Self::wait), but blocks the current thread.
    pub fn wait_blocking(&self, limit: Option<Duration>) -> bool {
        let since = &self.0.since;
        let guard = since.lock();
        let is_unset = |since: &mut Option<Instant>| since.is_none();
        match limit {
            None => drop(self.0.threads.wait_while(guard, is_unset)),
            Some(limit) => drop(self.0.threads.wait_timeout_while(guard, limit, is_unset)),
        }
        self.is_set()
    }

    /// Adds a reason. Returns `true` if it is new.
    pub fn set(&self, reason: StopReason) -> bool {
        let mut since = self.0.since.lock();
        since.get_or_insert_with(Instant::now);
        let before = self.0.reasons.fetch_or(reason.bits(), Ordering::SeqCst);
        drop(since);
        self.0.tasks.notify_waiters();
        self.0.threads.notify_all();
        !StopReason::from_bits(before).contains(reason)
    }

    /// Returns the time since the first reason; zero if there is none.
    pub(crate) fn age(&self) -> Duration {
        let since = self.0.since.lock();
        since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Waits until the runner has ended. Cancel-safe.
    pub(crate) async fn done(&self) {
        self.until(|reason| reason.contains(StopReason::DONE)).await;
    }

    /// Waits for the cancellation stage. Cancel-safe.
    pub(crate) async fn cancelled(&self) {
        self.until(|reason| reason.contains(StopReason::DAEMON_CANCELLED))
            .await;
    }

    /// Waits until the cancellation stage is over. Cancel-safe.
    pub(crate) async fn given_up(&self) {
        let over = StopReason::DAEMON_CANCELLED | StopReason::DAEMON_ABANDONED;
        self.until(|reason| reason.contains(over)).await;
    }

    /// Records that the function runs outside of the engine.
    pub(crate) fn set_foreign(&self) {
        self.0.foreign.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the function runs outside of the engine.
    pub(crate) fn is_foreign(&self) -> bool {
        self.0.foreign.load(Ordering::Relaxed)
    }

    async fn until(&self, is_so: impl Fn(StopReason) -> bool) {
        loop {
            let mut told = pin!(self.0.tasks.notified());
            told.as_mut().enable();
            if is_so(self.reason()) {
                return;
            }
            told.await;
        }
    }
}

impl fmt::Debug for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stopped({})", self.reason())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn waits_end_at_the_limit_or_with_the_flag() {
        let stopped = Stopped::new();
        let begun = Instant::now();
        assert!(!stopped.wait(Some(Duration::from_secs(5))).await);
        assert_eq!(begun.elapsed(), Duration::from_secs(5));

        let setting = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(stopped.set(StopReason::RESOURCE_DELETED));
        };
        let (is_set, ()) = tokio::join!(stopped.wait(Some(LONG)), setting);
        assert!(is_set && begun.elapsed() == Duration::from_secs(6));
        assert!(stopped.wait(None).await, "at once");
    }

    #[tokio::test(start_paused = true)]
    async fn reasons_accumulate_and_the_first_one_sets_the_age() {
        let stopped = Stopped::new();
        assert_eq!(stopped.age(), Duration::ZERO);
        assert!(stopped.set(StopReason::RESOURCE_DELETED));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert!(stopped.set(StopReason::DAEMON_CANCELLED));
        assert!(!stopped.set(StopReason::DAEMON_CANCELLED));
        assert_eq!(stopped.age(), Duration::from_secs(3));
        assert_eq!(stopped.reason().bits(), 4 + 64);
        stopped.cancelled().await;
    }

    #[test]
    fn threads_can_wait() {
        let stopped = Stopped::new();
        assert!(!stopped.wait_blocking(Some(Duration::from_millis(1))));
        let other = stopped.clone();
        let thread = std::thread::spawn(move || {
            (other.wait_blocking(Some(LONG)), other.wait_blocking(None))
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            stopped.set(StopReason::OPERATOR_EXITING);
        });
        assert_eq!(thread.join().unwrap(), (true, true));
    }
}
