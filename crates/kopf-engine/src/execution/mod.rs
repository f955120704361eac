//! Calls of handlers: one attempt of one function, one round of the due ones, sub-handlers.
//!
//! `kopf-core` decides the meaning of an outcome, and [`crate::invocation`] hides the way in which
//! a function is called. This module does the rest: time limits, panics, threads, logs.

mod attempt;
mod attempts;
mod call;
mod executor;
mod foreign;
mod indexed;
mod pool;
mod round;
mod subs;
mod unreadable;
mod unsaved;

pub(crate) use attempt::{AttemptContext, PriorAttempts, RunnerHandles};
pub(crate) use attempts::AttemptLog;
pub(crate) use executor::{Execution, Executor};
pub(crate) use indexed::Indexed;
pub(crate) use kopf_core::panicking::describe as describe_panic;
pub(crate) use pool::BlockingPool;
use subs::Subs;
pub(crate) use unreadable::warn_unreadable;
pub(crate) use unsaved::UnsavedRecords;

pub use crate::invocation::{RegistrationError, SubHandlers};
