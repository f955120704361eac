//! Daemons and timers: handlers that run beside objects for as long as those match.
//!
//! ```text
//! worker ── ObjectDaemons ──► Object ──┬─ Runner ◄── task: daemon or timer
//!           (in the memory)         └─ Runner ◄── task
//! Daemon killer ──► Daemons: all runners of the operator
//! ```
//!
//! Cycles of the object start them and stop them stage by stage, together with the delays of its
//! handlers ([`ObjectDaemons`]). Where there is no cycle to wait for — the object is gone, the operator
//! is paused or ends — the killer does it ([`killer`]). What is decided is decided in
//! `kopf_core::background`.
//!
//! There can be tens of thousands of them: a sleeping one is a task of a few hundred bytes, and
//! shares all else with the others of its object.

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
