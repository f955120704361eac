//! One call of a user's function in the event loop.

use std::sync::Arc;

use kopf_core::outcome::{Attachment, HandlerError};
use kopf_core::sync::Mutex;
use kopf_engine::invocation::{Call, HandlerResult, Invoke, Work};
use pyo3::prelude::*;
use tokio::sync::oneshot;
use tracing::Span;

use crate::front::Front;
use crate::queue::Entry;
use crate::traces::Traced;

/// A user's function.
pub(crate) struct Function {
    pub(crate) front: Arc<Front>,
    /// The handler as declared in Python.
    pub(crate) handler: Py<PyAny>,
    /// Coroutine functions can be cancelled; functions in threads cannot.
    pub(crate) is_async: bool,
}

/// A function of Python for the engine.
pub(crate) struct Invocation(pub(crate) Arc<Function>);

impl Invoke for Invocation {
    fn invoke(&self, call: Call) -> Work {
        let (sender, receiver) = oneshot::channel();
        let job = Arc::new(Job {
            call,
            function: Arc::clone(&self.0),
            result: Mutex::new(Some(sender)),
            phase: Mutex::new(Phase::Queued),
            traced: Traced::current(),
            span: Mutex::new(Some(Span::current())),
        });
        let queue = Arc::clone(&self.0.front.queue);
        queue.push(Entry::Start(Arc::clone(&job)));
        let lost = || HandlerError::arbitrary("the event loop of the operator has ended");
        Work::Foreign {
            done: Box::pin(async move { receiver.await.unwrap_or_else(|_| Err(lost())) }),
            cancel: self.0.is_async.then(|| {
                Box::new(move || {
                    queue.push(Entry::Cancel(job));
                }) as _
            }),
        }
    }
}

/// One call of a function.
pub(crate) struct Job {
    pub(crate) call: Call,
    pub(crate) function: Arc<Function>,
    result: Mutex<Option<oneshot::Sender<HandlerResult>>>,
    phase: Mutex<Phase>,
    /// The span of the call, if it is recorded.
    pub(crate) traced: Option<Arc<Traced>>,
    /// The same span, kept open until the end of the call.
    span: Mutex<Option<Span>>,
}

enum Phase {
    Queued,
    /// Contains the asyncio task.
    Running(Option<Py<PyAny>>),
    Cancelled,
}

impl Job {
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

    /// Returns the span of the call, for work that the call requests.
    pub(crate) fn span(&self) -> Span {
        self.span.lock().clone().unwrap_or_else(Span::none)
    }

    /// Passes the result to the engine. Later results are ignored.
    pub(crate) fn finish(&self, result: HandlerResult) {
        let span = self.span.lock().take();
        drop(span);
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

/// An exception, stored until its record is written.
pub(crate) struct Exception(pub(crate) Py<PyAny>);

impl Exception {
    /// Returns the exception in an attachment.
    pub(crate) fn of(py: Python<'_>, attachment: &Attachment) -> Option<Py<PyAny>> {
        let exception = attachment.downcast_ref::<Self>();
        exception.map(|exception| exception.0.clone_ref(py))
    }
}
