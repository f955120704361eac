//! Records on objects: progress, diff-bases.

pub mod diffbase;
pub mod progress;
#[doc(hidden)]
pub mod settled;
pub mod storage;
