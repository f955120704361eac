//! Running of handlers: one attempt of one function, one round of the due ones, sub-handlers.
//!
//! What an outcome means is decided in `kopf-core`; how a function is called is behind
//! [`crate::invocation`]. Here is what is between: limits of time, panics, threads, logs.

mod attempt;
mod attempts;
mod call;
mod indexed;
mod pool;
mod round;
mod subs;

pub(crate) use attempt::{Before, Trial};
pub(crate) use attempts::AttemptLog;
pub(crate) use kopf_core::panicking::describe as describe_panic;
pub(crate) use pool::BlockingPool;
pub use subs::{RegistrationError, SubHandlers};

use std::sync::Arc;

use kopf_core::cause::Cause;
use kopf_core::lifecycle::Lifecycle;

use crate::invocation::{FilterContext, SharedPatch, Slot};
use crate::logger::ObjectLogger;
use crate::memos::MemoCell;
use crate::shared::Shared;

/// What all handlers of one cycle have in common. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Execution {
    pub(crate) shared: Arc<Shared>,
    pub(crate) cause: Arc<Cause>,
    pub(crate) patch: SharedPatch,
    pub(crate) logger: ObjectLogger,
    pub(crate) lifecycle: Arc<dyn Lifecycle>,
    pub(crate) memo: MemoCell,
    /// Where results go that are no JSON.
    pub(crate) slot: Slot,
    /// The attempts of this cycle, sub-handlers included.
    pub(crate) attempts: AttemptLog,
}

impl Execution {
    /// What filters and lifecycles get.
    fn context(&self) -> FilterContext {
        FilterContext::new(Arc::clone(&self.shared.context), self.memo.clone())
    }
}
