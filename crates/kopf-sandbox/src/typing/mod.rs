//! The types of built-in kinds, recorded from the real server's own types.
//!
//! Custom resources have schemas instead. The module is independent of requests: the verbs
//! determine when objects are decoded, and the treatment of unknown fields.

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

/// Returns the types of the built-in kinds, parsed on first use.
pub(crate) fn built_in() -> &'static TypeTable {
    static TYPES: LazyLock<TypeTable> = LazyLock::new(|| {
        TypeTable::parse(include_bytes!("../../data/types.json"))
            .expect("the recorded types are part of the program, and the tests read them")
    });
    &TYPES
}

/// Returns the types, shared by tests.
#[cfg(test)]
pub(crate) fn recorded() -> &'static TypeTable {
    built_in()
}

#[cfg(test)]
mod tests;
