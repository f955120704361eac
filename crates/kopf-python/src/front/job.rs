//! One call of a user's function in the event loop.

use std::sync::Arc;

use kopf_core::outcome::{Attachment, HandlerError};
use kopf_core::sync::Mutex;
use kopf_engine::invocation::{Call, HandlerResult, Invoke, Work};
use pyo3::prelude::*;
use tracing::Span;

use crate::front::Front;
use crate::front::completion::Completion;
use crate::front::queue::Entry;
use crate::front::traces::Traced;

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
        let (completion, receiver) = Completion::new();
        let job = Arc::new(Job {
            call,
            function: Arc::clone(&self.0),
            completion,
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
    pub(crate) completion: Completion,
    /// The span of the call, if it is recorded.
    pub(crate) traced: Option<Arc<Traced>>,
    /// The same span, kept open until the end of the call.
    span: Mutex<Option<Span>>,
}

impl Job {
    /// Returns the span of the call, for work that the call requests.
    pub(crate) fn span(&self) -> Span {
        self.span.lock().clone().unwrap_or_else(Span::none)
    }

    /// Passes the result to the engine. Later results are ignored.
    pub(crate) fn finish(&self, result: HandlerResult) {
        let span = self.span.lock().take();
        drop(span);
        self.completion.finish(result);
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
