//! State shared by the daemons and timers of one object.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::io::{self, Write};
use std::pin::pin;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use kopf_core::body::Body;
use kopf_core::handler::HandlerId;
use kopf_core::resource::Resource;
use kopf_core::sync::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::registry::Daemons;
use super::runner::Runner;
use crate::error::Error;
use crate::invocation::{Handler, LiveBody};
use crate::leading::Pass;
use crate::logger::ObjectLogger;
use crate::memos::MemoCell;
use crate::metrics::{ErrorMark, ResourceMetrics};
use crate::patching::{Applied, label_of};

/// State shared by the daemons and timers of one object.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) daemons: Arc<Daemons>,
    pub(super) resource: Arc<Resource>,
    pub(super) logger: ObjectLogger,
    pub(super) memo: MemoCell,
    metrics: Option<Arc<ResourceMetrics>>,
    state: Mutex<State>,
    changed: Notify,
    /// Notified when a stopping runner ends.
    pub(super) exits: Notify,
}

#[derive(Debug)]
pub(super) struct State {
    /// `None` if there are no runners.
    pub(super) live: Option<LiveBody>,
    pub(super) running: Vec<Arc<Runner>>,
    /// Daemons that are started again when the Lease of the object is renewed.
    pub(super) suspended: Vec<Arc<Handler>>,
    /// Handlers whose runners have ended on their own. They are never started again.
    pub(super) forever_stopped: Vec<HandlerId>,
    /// Marks of the runners that have ended with an error.
    pub(super) failures: Vec<ErrorMark>,
    essence: Option<u64>,
    last_change: Instant,
    changes: u64,
}

impl State {
    /// Removes a runner. With `forever`, its handler is never started again.
    pub(super) fn leave(&mut self, runner: &Runner, forever: bool) {
        self.running.retain(|other| other.number != runner.number);
        let id = &runner.handler.id;
        if forever && !self.forever_stopped.contains(id) {
            self.forever_stopped.push(Arc::clone(id));
        }
    }

    /// Drops the body if no runner needs it.
    pub(super) fn release_live(&mut self) {
        if self.running.is_empty() && self.suspended.is_empty() {
            self.live = None;
        }
    }
}

impl Object {
    pub(super) fn new(
        daemons: Arc<Daemons>,
        resource: Arc<Resource>,
        logger: ObjectLogger,
        memo: MemoCell,
    ) -> Self {
        Self {
            metrics: daemons.context().metrics.resource(&resource),
            daemons,
            resource,
            logger,
            memo,
            state: Mutex::new(State {
                live: None,
                running: Vec::new(),
                suspended: Vec::new(),
                forever_stopped: Vec::new(),
                failures: Vec::new(),
                essence: None,
                last_change: Instant::now(),
                changes: 0,
            }),
            changed: Notify::new(),
            exits: Notify::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Forgets which of these daemons are suspended. Returns all runners.
    pub(super) fn unsuspend(&self, is_meant: impl Fn(&Handler) -> bool) -> Vec<Arc<Runner>> {
        let mut state = self.state();
        state.suspended.retain(|handler| !is_meant(handler));
        state.release_live();
        state.running.clone()
    }

    /// Starts a suspended daemon again, unless it is not wanted any more.
    pub(super) fn restart(self: &Arc<Self>, handler: &Arc<Handler>, pass: Pass) {
        let mut state = self.state();
        let is_other = |other: &Arc<Handler>| other.id != handler.id;
        let is_wanted = !state.suspended.iter().all(is_other);
        state.suspended.retain(is_other);
        let mut running = state.running.iter();
        let is_running = running.any(|runner| runner.handler.id == handler.id);
        let live = state.live.clone().filter(|_| is_wanted && !is_running);
        if live.is_none() {
            state.release_live();
        }
        drop(state);
        if let Some(live) = live {
            Runner::start(self, Arc::clone(handler), live, pass);
        }
    }

    /// Counts a patch.
    pub(super) fn count_patch(&self, applied: &Result<Applied, Error>) {
        if let Some(metrics) = &self.metrics {
            metrics.patch(label_of(applied));
        }
    }

    /// Replaces the live body by a newer version.
    pub(super) fn refresh(&self, body: &Body) {
        if let Some(live) = &self.state().live {
            live.set(body.clone());
        }
    }

    /// Compares the essence with the previous one and notifies idle timers of a difference.
    pub(super) fn compare(&self, essence: &Value) {
        let now = fingerprint(essence);
        let mut state = self.state();
        let before = state.essence.replace(now);
        if before.is_some_and(|before| before != now) {
            state.last_change = Instant::now();
            state.changes = state.changes.wrapping_add(1);
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Returns the time since the last change of the essence.
    pub(super) fn unchanged(&self) -> Duration {
        self.state().last_change.elapsed()
    }

    /// Returns the number of changes of the essence.
    pub(super) fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Waits until the number of changes differs from `changes`. Cancel-safe.
    pub(super) async fn changed_since(&self, changes: u64) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.changes() != changes {
                return;
            }
            changed.await;
        }
    }
}

/// Returns a hash of a value.
fn fingerprint(value: &Value) -> u64 {
    struct Hashing(DefaultHasher);

    impl Write for Hashing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut hashing = Hashing(DefaultHasher::new());
    // Serialization to a hasher cannot fail.
    let _ = serde_json::to_writer(&mut hashing, value);
    hashing.0.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn different_values_have_different_fingerprints() {
        let value = json!({"spec": {"a": 1}});
        assert_eq!(fingerprint(&value), fingerprint(&value.clone()));
        assert_ne!(fingerprint(&value), fingerprint(&json!({"spec": {"a": 2}})));
        assert_ne!(
            fingerprint(&value),
            fingerprint(&json!({"spec": {"a": "1"}}))
        );
    }
}
