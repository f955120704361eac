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

#[cfg(test)]
mod tests {
    use kopf_core::outcome::HandlerError;
    use serde_json::json;

    use super::*;
    use crate::interpreter::{attached, evaluate};

    /// Returns an object in place of an asyncio task, and a weak reference to it.
    fn task() -> (Py<PyAny>, Py<PyAny>) {
        attached(|py| {
            let made = "import weakref\nclass Task: pass\ntask = Task()";
            let both = evaluate(py, made, "(task, weakref.ref(task))")?;
            both.extract()
        })
    }

    fn is_alive(reference: &Py<PyAny>) -> bool {
        attached(|py| Ok(!reference.call0(py)?.is_none(py)))
    }

    #[test]
    fn a_call_that_is_cancelled_in_the_queue_does_not_start() {
        let (call, _receiver) = Completion::new();
        assert!(!call.is_cancelled());
        assert!(call.cancel().is_none(), "there is no task yet");
        assert!(call.is_cancelled());
        assert!(!call.start());
    }

    #[test]
    fn the_task_of_a_running_call_is_cancelled_once() {
        let (call, mut receiver) = Completion::new();
        let (task, _) = task();
        assert!(call.start());
        call.set_task(attached(|py| Ok(task.clone_ref(py))));
        let cancelled = call.cancel().unwrap();
        assert!(cancelled.is(&task));
        assert!(call.cancel().is_none());
        assert!(call.is_cancelled());
        // The function decides what its cancellation results in.
        assert!(receiver.try_recv().is_err());
        call.finish(Err(HandlerError::Cancelled));
        assert!(matches!(
            receiver.try_recv(),
            Ok(Err(HandlerError::Cancelled))
        ));
    }

    #[test]
    fn a_cancelled_call_can_still_return_a_result() {
        let (call, mut receiver) = Completion::new();
        call.start();
        call.cancel();
        call.finish(Ok(Some(json!(1))));
        let result = receiver.try_recv().unwrap().unwrap();
        assert_eq!(result, Some(json!(1)));
    }

    #[test]
    fn only_the_first_result_counts() {
        let (call, mut receiver) = Completion::new();
        call.start();
        call.finish(Ok(None));
        call.finish(Err(HandlerError::permanent("late")));
        assert!(matches!(receiver.try_recv(), Ok(Ok(None))));
    }

    #[test]
    fn a_finished_call_keeps_no_task() {
        let (call, _receiver) = Completion::new();
        let (own, reference) = task();
        call.start();
        call.set_task(own);
        assert!(is_alive(&reference));
        call.finish(Ok(None));
        assert!(!is_alive(&reference));
        assert!(call.cancel().is_none());
    }

    #[test]
    fn a_task_that_has_ended_eagerly_is_not_kept() {
        let (call, _receiver) = Completion::new();
        let (own, reference) = task();
        call.start();
        call.finish(Ok(None));
        call.set_task(own);
        assert!(!is_alive(&reference));
    }

    #[test]
    fn a_dropped_call_fails_its_receiver() {
        let (call, mut receiver) = Completion::new();
        call.start();
        drop(call);
        assert!(receiver.try_recv().is_err());
    }
}
