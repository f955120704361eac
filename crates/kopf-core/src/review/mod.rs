//! Requests of the API server: admission, conversion.

pub mod admission;
pub mod conversion;
