//! Daemons and timers: handlers that run beside objects for as long as their filters match.
//!
//! ```text
//! worker ── ObjectDaemons ──► Object ──┬─ Runner ◄── task: daemon or timer
//!           (object state)             └─ Runner ◄── task
//! Daemon killer ──► Daemons: all runners of the operator
//! ```
//!
//! Cycles of the object start and stop them, stage by stage ([`ObjectDaemons`]). Where no cycle
//! follows (the object is gone, the operator is paused or ends), the [`killer`] stops them. The
//! rules are in `kopf_core::background`.
//!
//! There can be tens of thousands of runners: a sleeping one is a task of a few hundred bytes, and
//! shares everything else with the others of its object.

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
