//! The types of built-in kinds, as recorded from the real server's own types.
//!
//! Custom resources have schemas instead and never come here. Nothing here knows about requests:
//! which objects are decoded when, and what an unknown field means, is decided by the verbs.

mod bytes;
mod complete;
pub(crate) mod creation;
mod decode;
mod defaults;
pub(crate) mod quantity;
mod rules;
mod table;
mod timestamp;

pub(crate) use decode::Mismatch;
pub(crate) use table::{Custom, Field, Shape, TypeRef, TypeTable};

use std::sync::LazyLock;

/// The types of the built-in kinds; read when the first object comes.
pub(crate) fn built_in() -> &'static TypeTable {
    static TYPES: LazyLock<TypeTable> = LazyLock::new(|| {
        TypeTable::parse(include_bytes!("../../data/types.json"))
            .expect("the recorded types are part of the program, and the tests read them")
    });
    &TYPES
}

/// The types that tests share.
#[cfg(test)]
pub(crate) fn recorded() -> &'static TypeTable {
    built_in()
}

#[cfg(test)]
mod tests;
