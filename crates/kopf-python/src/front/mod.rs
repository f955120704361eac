//! The base of the frontend: values, the queue to the event loop, calls, log records.

pub(crate) mod completion;
pub(crate) mod convert;
pub(crate) mod delays;
mod frontend;
pub(crate) mod hosting;
pub(crate) mod job;
pub(crate) mod logging;
pub(crate) mod queue;
pub(crate) mod raised;
pub(crate) mod reading;
pub(crate) mod resolving;
pub(crate) mod traces;

pub(crate) use self::frontend::{Front, FrontObject, describe};
