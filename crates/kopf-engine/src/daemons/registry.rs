//! All daemons and timers of one operator.

use std::collections::HashMap;
use std::sync::Arc;

use kopf_core::background::StopReason;
use kopf_core::reference::ObjectReference;
use kopf_core::sync::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::runner::Runner;
use crate::execution::Executor;
use crate::inspect::{Counted, Inspect};
use crate::invocation::OperatorContext;

/// All daemons and timers of one operator.
#[derive(Debug)]
pub(crate) struct Daemons {
    pub(super) executor: Arc<Executor>,
    pub(super) inspect: Inspect,
    inner: Mutex<Inner>,
    pub(super) tasks: TaskTracker,
    releases: Notify,
    halt: CancellationToken,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    runners: HashMap<u64, Arc<Runner>>,
    /// Runners of deleted objects that the killer has not begun to stop yet.
    released: Vec<(Arc<Runner>, StopReason)>,
    /// Runners of deleted objects that have not ended yet.
    leaving: HashMap<u64, Arc<Runner>>,
    is_closed: bool,
}

impl Daemons {
    /// Creates an empty registry. Cancelling `halt` stops the operator.
    pub(crate) fn new(executor: Arc<Executor>, inspect: Inspect, halt: CancellationToken) -> Self {
        let tasks = TaskTracker::new();
        // A closed tracker can be awaited at any time.
        tasks.close();
        Self {
            executor,
            inspect,
            inner: Mutex::default(),
            tasks,
            releases: Notify::new(),
            halt,
        }
    }

    /// Returns the context of all handlers of the operator.
    pub(super) fn context(&self) -> &Arc<OperatorContext> {
        &self.executor.context
    }

    /// Adds a runner; `None` if the operator is stopping.
    pub(super) fn enter(&self, make: impl FnOnce(u64) -> Arc<Runner>) -> Option<Arc<Runner>> {
        let mut inner = self.inner.lock();
        if inner.is_closed || self.halt.is_cancelled() {
            return None;
        }
        let number = inner.next;
        inner.next = inner.next.wrapping_add(1);
        let runner = make(number);
        inner.runners.insert(number, Arc::clone(&runner));
        Some(runner)
    }

    /// Removes a runner that has ended.
    pub(super) fn leave(&self, runner: &Runner) {
        let mut inner = self.inner.lock();
        inner.runners.remove(&runner.number);
        inner.leaving.remove(&runner.number);
    }

    /// Hands runners of a deleted object over to the killer. If the operator is stopping, that is
    /// the reason instead of `reason`.
    pub(super) fn release(&self, runners: Vec<Arc<Runner>>, reason: StopReason) {
        let reason = if self.halt.is_cancelled() {
            StopReason::OPERATOR_EXITING
        } else {
            reason
        };
        let mut inner = self.inner.lock();
        for runner in runners {
            runner.stopped.set(reason);
            inner.leaving.insert(runner.number, Arc::clone(&runner));
            inner.released.push((runner, reason));
        }
        drop(inner);
        self.releases.notify_one();
    }

    /// Waits for runners of deleted objects. Cancel-safe.
    pub(super) async fn released(&self) -> Vec<(Arc<Runner>, StopReason)> {
        loop {
            let released = std::mem::take(&mut self.inner.lock().released);
            if !released.is_empty() {
                return released;
            }
            self.releases.notified().await;
        }
    }

    /// Returns `true` if a former runner of this handler of this object has not ended yet.
    pub(super) fn is_leaving(&self, object: &ObjectReference, id: &str) -> bool {
        let inner = self.inner.lock();
        inner.leaving.values().any(|runner| {
            *runner.handler.id == *id && **runner.object.logger.reference() == *object
        })
    }

    /// Returns all runners.
    pub(super) fn all(&self) -> Vec<Arc<Runner>> {
        self.inner.lock().runners.values().cloned().collect()
    }

    /// Returns the daemons whose Lease is not renewed in time. Timers wait for the renewal by themselves.
    pub(super) fn to_suspend(&self) -> Vec<Arc<Runner>> {
        let mut runners = self.all();
        runners.retain(|runner| {
            let is_daemon = runner.counted() == Counted::Daemon;
            is_daemon && runner.tenure.is_suspended() && !runner.stopped.is_set()
        });
        runners
    }

    /// Rejects new runners from now on.
    pub(super) fn close(&self) {
        self.inner.lock().is_closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner.lock().is_closed
    }
}
