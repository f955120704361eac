//! Runtime of operators: watch streams, queues, handling cycles, handlers, patches and shutdown.
//!
//! The rules are in `kopf-core`, the requests to Kubernetes in `kopf-client`. The Rust and Python
//! frontends implement the traits of [`invocation`].

#![warn(clippy::too_many_lines)]

pub mod activities;
pub mod admission;
pub mod applying;
pub mod authentication;
#[cfg(test)]
mod captured;
mod child_inboxes;
pub mod clock;
pub mod daemons;
pub mod definitions;
mod error;
mod errors;
pub mod execution;
#[cfg(test)]
mod fake_api;
pub mod health;
mod identity;
pub mod indexing;
pub mod inspect;
pub mod invocation;
mod known_kinds;
mod known_peers;
pub mod leading;
mod mailbox;
pub mod metrics;
mod object;
mod observation;
pub mod operator;
mod orchestration;
mod patching;
mod pausing;
pub mod peering;
mod permissions;
mod permits;
pub mod posting;
pub mod probing;
mod queueing;
mod review_memos;
mod shared;
pub mod signals;
mod spans;
mod stream_set;

pub use invocation::{current, logger, memos};
pub use operator::Operator;
