//! One prepared call of a function.

use std::fmt;

use futures::future::BoxFuture;

use super::HandlerResult;

/// One prepared call of a function.
#[must_use]
#[non_exhaustive]
pub enum Work {
    /// Runs in the engine's tasks. Dropped at the handler's timeout and when the operator is
    /// forced to stop.
    Async(BoxFuture<'static, HandlerResult>),
    /// Runs in a thread of a bounded pool. Cannot be interrupted.
    Blocking(Box<dyn FnOnce() -> HandlerResult + Send>),
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Async(_) => "Async",
            Self::Blocking(_) => "Blocking",
        })
    }
}
