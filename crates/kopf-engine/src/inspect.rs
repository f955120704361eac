//! Counters and liveness of a running operator, for tests that wait until it has settled, for
//! health checks and for the signal thread.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use kopf_core::settings::Settings;
use tokio::runtime::Handle;
use tokio::sync::SetOnce;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::health::{Health, HealthTracker};
use crate::metrics::{Format, Metrics, OperatorCounts};

/// The observable state of a running operator. Cheap to clone: clones share the operator.
#[derive(Debug, Clone, Default)]
pub struct Inspect(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    streams: AtomicUsize,
    unlisted: AtomicUsize,
    objects: AtomicUsize,
    working: AtomicUsize,
    sleeping: AtomicUsize,
    backing_off: AtomicUsize,
    settings: SetOnce<Arc<Settings>>,
    stopping: CancellationToken,
    runtime: OnceLock<Handle>,
    daemons: AtomicUsize,
    timers: AtomicUsize,
    health_tracker: HealthTracker,
    probed_at: OnceLock<SocketAddr>,
    measured_at: OnceLock<SocketAddr>,
    metrics: OnceLock<Metrics>,
}

/// A snapshot of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Open watch streams.
    pub streams: usize,
    /// Watch streams whose first listing is not complete.
    pub unlisted: usize,
    /// Objects in the streams of the operator.
    pub objects: usize,
    /// Objects in a cycle, or with a written change whose watch event has not arrived yet.
    pub working: usize,
    /// Objects that wait for the next attempt of a handler.
    pub sleeping: usize,
    /// Objects that wait after a failure of the framework, a conflict, or a cycle without progress.
    pub backing_off: usize,
    /// Running or starting daemons: one for each object and handler.
    pub daemons: usize,
    /// Running or sleeping timers: one for each object and handler.
    pub timers: usize,
}

impl Inspect {
    /// Returns the current numbers.
    pub fn snapshot(&self) -> Snapshot {
        let read = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        Snapshot {
            streams: read(&self.0.streams),
            unlisted: read(&self.0.unlisted),
            objects: read(&self.0.objects),
            working: read(&self.0.working),
            sleeping: read(&self.0.sleeping),
            backing_off: read(&self.0.backing_off),
            daemons: read(&self.0.daemons),
            timers: read(&self.0.timers),
        }
    }

    /// Returns `true` if there is nothing to do now: everything is listed, and no object is in a
    /// cycle. Objects may sleep or back off, timers may wait, and daemons may run.
    pub fn is_settled(&self) -> bool {
        let now = self.snapshot();
        now.unlisted == 0 && now.working == 0
    }

    /// Returns the settings as changed by the startup handlers; `None` until those have finished.
    pub fn settings(&self) -> Option<&Arc<Settings>> {
        self.0.settings.get()
    }

    /// Waits until the operator begins to stop, on request or because of an error.
    ///
    /// # Cancellation
    /// Cancel-safe.
    pub async fn stopping(&self) {
        self.0.stopping.cancelled().await;
    }

    /// Waits until the operator has started to stop and its runtime has run a new task. Never
    /// returns while either thread is blocked. Returns immediately before the operator runs, and
    /// inside the same runtime, where a blocked thread blocks the caller as well.
    ///
    /// # Cancellation
    /// Cancel-safe.
    pub(crate) async fn responds(&self) {
        let runtime = self.0.runtime.get();
        if let Some(runtime) = runtime.filter(|runtime| runtime.id() != Handle::current().id()) {
            self.stopping().await;
            let mut probe = JoinSet::new();
            probe.spawn_on(async {}, runtime);
            // A runtime that was shut down cancels the task, which also counts as a response.
            let _ = probe.join_next().await;
        }
    }

    /// Sets the runtime of the operator. The operator stops at the latest when the guard is
    /// dropped.
    pub(crate) fn set_runtime(&self, runtime: Handle) -> DropGuard {
        // An operator runs once.
        let _ = self.0.runtime.set(runtime);
        self.0.stopping.clone().drop_guard()
    }

    /// Returns the state of the watch streams.
    pub fn health(&self) -> Health {
        self.0.health_tracker.health()
    }

    /// Returns the address of the endpoint for probes; `None` if it is disabled or not listening
    /// yet.
    pub fn probed_at(&self) -> Option<SocketAddr> {
        self.0.probed_at.get().copied()
    }

    /// Returns the address of the endpoint for metrics; `None` if it is disabled or not listening
    /// yet.
    pub fn measured_at(&self) -> Option<SocketAddr> {
        self.0.measured_at.get().copied()
    }

    /// Returns all metrics; `None` before the operator has started, and if
    /// `settings.process.metrics` is off.
    pub fn metrics(&self, format: Format) -> Option<String> {
        self.0.metrics.get()?.text(format)
    }

    pub(crate) fn set_metrics(&self, metrics: Metrics) {
        // An operator runs once.
        let _ = self.0.metrics.set(metrics);
    }

    pub(crate) fn set_measured_at(&self, address: SocketAddr) {
        // The endpoint is opened once.
        let _ = self.0.measured_at.set(address);
    }

    /// Returns a function that reads the counters for metrics. It holds a weak reference, because
    /// the operator owns its metrics.
    pub(crate) fn counts(&self) -> impl Fn() -> Option<OperatorCounts> + Send + Sync + 'static {
        let counters = Arc::downgrade(&self.0);
        move || {
            let inspect = Self(counters.upgrade()?);
            let now = inspect.snapshot();
            Some(OperatorCounts {
                working: now.working,
                sleeping: now.sleeping,
                backing_off: now.backing_off,
                is_alive: inspect.health().is_alive(),
            })
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.0.stopping.is_cancelled()
    }

    pub(crate) fn health_tracker(&self) -> &HealthTracker {
        &self.0.health_tracker
    }

    pub(crate) fn set_probed_at(&self, address: SocketAddr) {
        // The endpoint is opened once.
        let _ = self.0.probed_at.set(address);
    }

    /// Waits until the startup handlers have finished. Returns the settings as changed by them.
    pub async fn known_settings(&self) -> &Settings {
        self.0.settings.wait().await
    }

    pub(crate) fn set_settings(&self, settings: Arc<Settings>) {
        // An operator runs once.
        let _ = self.0.settings.set(settings);
    }

    pub(crate) fn set_stopping(&self) {
        self.0.stopping.cancel();
    }

    pub(crate) fn count(&self, what: Counted) -> Guard {
        self.counter(what).fetch_add(1, Ordering::SeqCst);
        Guard {
            inspect: self.clone(),
            what,
        }
    }

    fn counter(&self, what: Counted) -> &AtomicUsize {
        match what {
            Counted::Stream => &self.0.streams,
            Counted::Unlisted => &self.0.unlisted,
            Counted::Working => &self.0.working,
            Counted::Sleeping => &self.0.sleeping,
            Counted::BackingOff => &self.0.backing_off,
            Counted::Daemon => &self.0.daemons,
            Counted::Timer => &self.0.timers,
        }
    }

    pub(crate) fn set_objects(&self, before: usize, now: usize) {
        self.0.objects.fetch_add(now, Ordering::SeqCst);
        self.0.objects.fetch_sub(before, Ordering::SeqCst);
    }
}

/// A counted state of an object or task; see [`Guard`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Stream,
    Unlisted,
    Working,
    Sleeping,
    BackingOff,
    Daemon,
    Timer,
}

/// Increments a counter, and decrements it when dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    inspect: Inspect,
    what: Counted,
}

impl Guard {
    /// Moves to another counter. The new one is incremented before the old one is decremented.
    pub(crate) fn becomes(&mut self, what: Counted) {
        if self.what != what {
            self.inspect.counter(what).fetch_add(1, Ordering::SeqCst);
            let before = std::mem::replace(&mut self.what, what);
            self.inspect.counter(before).fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.inspect
            .counter(self.what)
            .fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_while_guards_live() {
        let inspect = Inspect::default();
        let mut guard = inspect.count(Counted::Working);
        assert_eq!(inspect.snapshot().working, 1);
        assert!(!inspect.is_settled());
        guard.becomes(Counted::Sleeping);
        assert_eq!(inspect.snapshot().sleeping, 1);
        assert!(
            inspect.is_settled(),
            "sleeping objects have nothing to do now"
        );
        guard.becomes(Counted::BackingOff);
        let snapshot = inspect.snapshot();
        assert_eq!((snapshot.sleeping, snapshot.backing_off), (0, 1));
        assert!(
            inspect.is_settled(),
            "backing-off objects have nothing to do now"
        );
        drop(guard);
        assert_eq!(inspect.snapshot().backing_off, 0);
    }
}
