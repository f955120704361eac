//! Requests of the API server: admission, conversion.

pub mod admission;
#[doc(hidden)]
pub mod conversion;
