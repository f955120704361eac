//! The types of built-in kinds, as recorded from the real server's own types.
//!
//! Custom resources have schemas instead and never come here. Nothing here knows about requests:
//! which objects are decoded when, and what an unknown field means, is decided by the verbs.

mod bytes;
mod complete;
pub(crate) mod creation;
mod decode;
mod defaults;
mod quantity;
mod rules;
mod table;
mod timestamp;

pub(crate) use decode::{Checked, Mismatch};
pub(crate) use table::{Error, Field, Shape, Strategy, Type, TypeRef, TypeTable};

/// The types that tests share.
#[cfg(test)]
pub(crate) fn recorded() -> &'static TypeTable {
    static TABLE: std::sync::OnceLock<TypeTable> = std::sync::OnceLock::new();
    TABLE.get_or_init(|| TypeTable::parse(include_bytes!("../../data/types.json")).unwrap())
}

#[cfg(test)]
mod tests;
