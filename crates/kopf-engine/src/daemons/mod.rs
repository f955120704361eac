//! Daemons and timers: handlers that run alongside objects while their filters match.
//!
//! ```text
//! worker ── ObjectDaemons ──► Object ──┬─ Runner ◄── task: daemon or timer
//!           (object state)             └─ Runner ◄── task
//! Daemon killer ──► Daemons: all runners of the operator
//! ```
//!
//! Cycles of the object start and stop them in stages ([`ObjectDaemons`]). If no cycle follows (the
//! object is deleted, the operator is paused or stops), the [`killer`] stops them. The rules are in
//! `kopf_core::background`.
//!
//! There can be tens of thousands of runners: a sleeping runner is a task of a few hundred bytes
//! and shares its other state with the runners of the same object.

mod exit_guard;
pub(crate) mod killer;
mod object;
mod object_daemons;
mod patching;
mod registry;
mod runner;
mod stopping;
mod task;

pub use crate::invocation::{LiveBody, Stopped};
pub use kopf_core::background::StopReason;
pub(crate) use object_daemons::ObjectDaemons;
pub(crate) use registry::Daemons;
