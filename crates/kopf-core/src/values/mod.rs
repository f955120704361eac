//! Plain values and their formats: field paths, diffs, times, encodings.

pub mod diff;
pub mod encoding;
pub mod equality;
pub mod failure;
pub mod field;
pub mod key_order;
pub mod lenient;
pub mod literal;
pub mod moment;
pub mod outline;
pub mod panicking;
pub mod repeats;
pub mod sync;
pub mod timestamp;
pub mod trigger;
