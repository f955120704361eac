//! Texts of errors.

pub(crate) use kopf_core::failure::describe;
