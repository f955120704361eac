//! Decisions about daemons and timers: the stages of stopping, and the timing of calls.
//!
//! Pure functions: the engine runs the handlers, sleeps and reads the clock.

mod reason;
mod stopping;
mod timing;

pub use reason::StopReason;
pub use stopping::{Action, Step, longest_exit, next_step};
pub use timing::{Next, after_round, idle_left};
