//! The course of one call: started or cancelled, and ended by its first result.

use kopf_core::sync::Mutex;
use kopf_engine::invocation::HandlerResult;
use pyo3::prelude::*;
use tokio::sync::oneshot;

/// The state of a call in the event loop.
///
/// The lock of the phase is never held while objects of Python are dropped: their destructors can
/// run any code.
pub(crate) struct Completion {
    result: Mutex<Option<oneshot::Sender<HandlerResult>>>,
    phase: Mutex<Phase>,
}

enum Phase {
    Queued,
    /// Contains the asyncio task.
    Running(Option<Py<PyAny>>),
    Cancelled,
}

impl Completion {
    /// Creates a queued call and the receiver of its result.
    pub(crate) fn new() -> (Self, oneshot::Receiver<HandlerResult>) {
        let (sender, receiver) = oneshot::channel();
        let completion = Self {
            result: Mutex::new(Some(sender)),
            phase: Mutex::new(Phase::Queued),
        };
        (completion, receiver)
    }

    /// Marks the call as started. Returns `false` if it was cancelled before.
    pub(crate) fn start(&self) -> bool {
        let mut phase = self.phase.lock();
        if matches!(*phase, Phase::Cancelled) {
            return false;
        }
        *phase = Phase::Running(None);
        true
    }

    /// Stores the asyncio task for its cancellation.
    ///
    /// A task that was started eagerly may have ended already. It must not be stored: its context
    /// refers to the call, and the garbage collector cannot detect such cycles.
    pub(crate) fn set_task(&self, task: Py<PyAny>) {
        if self.result.lock().is_none() {
            return;
        }
        let mut phase = self.phase.lock();
        if let Phase::Running(former) = &mut *phase {
            *former = Some(task);
        }
    }

    /// Marks the call as cancelled. Returns the task to cancel.
    pub(crate) fn cancel(&self) -> Option<Py<PyAny>> {
        match std::mem::replace(&mut *self.phase.lock(), Phase::Cancelled) {
            Phase::Running(task) => task,
            Phase::Queued | Phase::Cancelled => None,
        }
    }

    /// Returns `true` if the engine has cancelled the call.
    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(*self.phase.lock(), Phase::Cancelled)
    }

    /// Passes the result to the engine. Later results are ignored.
    pub(crate) fn finish(&self, result: HandlerResult) {
        let sender = self.result.lock().take();
        if let Some(sender) = sender {
            let _ = sender.send(result);
        }
        let task = match &mut *self.phase.lock() {
            Phase::Running(task) => task.take(),
            Phase::Queued | Phase::Cancelled => None,
        };
        drop(task);
    }
}
