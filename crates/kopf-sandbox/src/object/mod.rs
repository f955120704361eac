//! Rules that hold for the metadata of every object, whatever its kind.

pub(crate) mod label_rules;
pub(crate) mod meta;
pub(crate) mod metadata_rules;
pub(crate) mod names;
