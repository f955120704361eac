//! Daemons and timers: handlers that run beside objects for as long as those match.
//!
//! ```text
//! worker ── Background ──► Object ──┬─ Runner ◄── task: daemon or timer
//!           (in the memory)         └─ Runner ◄── task
//! Daemon killer ──► Fleet: all runners of the operator
//! ```
//!
//! Cycles of the object start them and stop them stage by stage, together with the delays of its
//! handlers ([`Background`]). Where there is no cycle to wait for — the object is gone, the operator
//! is paused or ends — the killer does it ([`killer`]). What is decided is decided in
//! `kopf_core::background`.
//!
//! There can be tens of thousands of them: a sleeping one is a task of a few hundred bytes, and
//! shares all else with the others of its object.

mod exit;
mod fleet;
pub(crate) mod killer;
mod live;
mod object;
mod patching;
mod runner;
mod spawned;
mod stopped;
mod stopping;
mod work;

pub(crate) use fleet::Fleet;
pub use kopf_core::background::StopReason;
pub use live::LiveBody;
pub(crate) use spawned::Background;
pub use stopped::Stopped;
