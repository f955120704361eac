//! From watch streams to mailboxes: one task per stream routes events to the mailboxes of their
//! objects, and starts a driver for each object that has something to do.
//!
//! Bounds the queued events and bytes; knows nothing of handlers. A quiet object has no task: only
//! its identity and a few flags are kept.

mod load;
mod mailbox;
mod routing;
mod stream;

pub(crate) use mailbox::{Mailbox, Queued};
pub(crate) use routing::{Adopted, Processing};
pub(crate) use stream::{Options, Stream};
