//! Calls of handlers: single attempts, rounds of due handlers, sub-handlers.
//!
//! `kopf-core` defines the meaning of outcomes, and [`crate::invocation`] abstracts the calls of
//! functions. This module adds time limits, panics, threads and logs.

mod attempt;
mod attempts;
mod call;
mod contributions;
mod executor;
mod foreign;
mod indexed;
mod pool;
mod reconciled;
mod round;
mod subs;
mod unreadable;
mod unsaved;

pub(crate) use attempt::{AttemptContext, PriorAttempts, RunnerHandles};
pub(crate) use attempts::AttemptLog;
pub(crate) use contributions::{Contribution, Contributions};
pub(crate) use executor::{Execution, Executor};
pub(crate) use indexed::Indexed;
pub(crate) use kopf_core::panicking::describe as describe_panic;
pub(crate) use pool::BlockingPool;
pub(crate) use reconciled::Reconciled;
use subs::Subs;
pub(crate) use unreadable::warn_unreadable;
pub(crate) use unsaved::UnsavedRecords;

pub use crate::invocation::{RegistrationError, SubHandlers};
