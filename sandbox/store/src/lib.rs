//! The lowest layer of the sandbox: stored objects with their versions and watches, the journal on
//! disk, and the sources of time, identifiers and locks.
//!
//! An internal crate of `kopf-sandbox`, without a stable interface.

#![warn(clippy::too_many_lines)]

#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
pub mod ids;
#[doc(hidden)]
pub mod journal;
#[doc(hidden)]
pub mod objects;
#[doc(hidden)]
pub mod sync;
