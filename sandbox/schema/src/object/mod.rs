//! Metadata rules of all kinds.

pub mod label_rules;
pub mod meta;
pub mod names;
