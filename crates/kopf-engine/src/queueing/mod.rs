//! Routing from watch streams to mailboxes: one task per stream routes events to the mailboxes of
//! objects and starts a driver for each object with pending work.
//!
//! The number and the size of queued events are bounded. Idle objects have no task, only an
//! identity and a few flags.

mod routing;
mod stream;

pub(crate) use stream::Stream;
