//! One prepared call of a function.

use std::fmt;

use futures::future::BoxFuture;

use super::HandlerResult;

/// Requests the end of foreign work. Returns immediately; the work ends later.
pub type Cancel = Box<dyn FnOnce() + Send>;

/// One prepared call of a function.
#[must_use]
#[non_exhaustive]
pub enum Work {
    /// Runs in the engine's tasks. Cancelled by dropping it: at the handler's timeout, at the
    /// cancellation stage of a daemon, and at a forced stop of the operator.
    Async(BoxFuture<'static, HandlerResult>),
    /// Runs in a thread of a bounded pool. Cannot be interrupted.
    Blocking(Box<dyn FnOnce() -> HandlerResult + Send>),
    /// Runs outside of the engine, such as in an event loop of the frontend.
    ///
    /// Cancelled by calling `cancel` and then awaiting `done` up to the limit of the stage: the
    /// handler's timeout, the daemon's cancellation timeout, or the exit timeout. Once cancelled,
    /// `done` should resolve to [`HandlerError::Cancelled`], unless the function ends with another
    /// result.
    ///
    /// Without `cancel`, the work cannot be interrupted: as with blocking work, a timeout takes
    /// effect when the work has returned.
    ///
    /// If the caller is dropped (a review whose client has disconnected, a worker at the end of the
    /// exit timeout), the work is also cancelled, and awaited before the operator ends.
    ///
    /// [`HandlerError::Cancelled`]: kopf_core::outcome::HandlerError::Cancelled
    ///
    /// ```
    /// use futures::channel::oneshot;
    /// use kopf_core::outcome::HandlerError;
    /// use kopf_engine::invocation::{HandlerResult, Work};
    ///
    /// /// Hands a function over to a thread that runs it.
    /// fn submit(queue: &std::sync::mpsc::Sender<oneshot::Sender<HandlerResult>>) -> Work {
    ///     let (result, done) = oneshot::channel();
    ///     let lost = || HandlerError::arbitrary("the thread has ended");
    ///     let _ = queue.send(result);
    ///     Work::Foreign {
    ///         done: Box::pin(async move { done.await.unwrap_or_else(|_| Err(lost())) }),
    ///         cancel: None,
    ///     }
    /// }
    /// ```
    Foreign {
        /// Resolves when the function has ended.
        done: BoxFuture<'static, HandlerResult>,
        /// Requests the end of the function.
        cancel: Option<Cancel>,
    },
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Async(_) => "Async",
            Self::Blocking(_) => "Blocking",
            Self::Foreign { .. } => "Foreign",
        })
    }
}
