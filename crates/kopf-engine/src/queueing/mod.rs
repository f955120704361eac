//! From streams of events to work on objects: one task per stream routes events to the queues of
//! their objects, and one task per object that has something to do works them off, one at a time.
//!
//! A quiet object has no task: only its identity and a few flags are kept.

mod load;
mod mailbox;
mod memory;
mod own;
mod stream;
mod turns;
mod versions;
mod worker;

pub(crate) use memory::Memory;
pub(crate) use stream::{Kind, Stream};
pub(crate) use turns::Turns;
pub(crate) use worker::Holding;
