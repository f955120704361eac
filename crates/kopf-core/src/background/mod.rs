//! What is decided about handlers that run beside objects: how they are stopped, when timers run.
//!
//! The engine runs them and asks here what is next; nothing sleeps here, and no clock is read.

mod reason;
mod stopping;
mod timing;

pub use reason::StopReason;
pub use stopping::{Action, Step, longest_exit, next_step};
pub use timing::{Next, after_round, idle_left};
