//! Metadata rules of all kinds.

pub(crate) mod label_rules;
pub(crate) mod meta;
pub(crate) mod metadata_rules;
pub(crate) mod names;
