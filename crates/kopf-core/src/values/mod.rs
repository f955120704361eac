//! Plain values and their formats: field paths, diffs, times, encodings.

pub mod diff;
#[doc(hidden)]
pub mod encoding;
#[doc(hidden)]
pub mod equality;
pub mod failure;
pub mod field;
pub mod key_order;
#[doc(hidden)]
pub mod lenient;
#[doc(hidden)]
pub mod literal;
#[doc(hidden)]
pub mod moment;
#[doc(hidden)]
pub mod outline;
#[doc(hidden)]
pub mod panicking;
#[doc(hidden)]
pub mod repeats;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod timestamp;
pub mod trigger;
