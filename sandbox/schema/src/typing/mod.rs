//! The types of built-in kinds, recorded from the real server's own types.
//!
//! Custom resources have schemas instead. The module is independent of requests: the verbs
//! determine when objects are decoded, and the treatment of unknown fields.

mod bytes;
mod complete;
pub mod creation;
mod decode;
mod defaults;
pub mod quantity;
mod rules;
mod table;
mod timestamp;

pub use decode::Mismatch;
pub use table::{Custom, Field, Shape, TypeRef, TypeTable};

use std::sync::LazyLock;

/// Returns the types of the built-in kinds, parsed on first use.
pub fn built_in() -> &'static TypeTable {
    static TYPES: LazyLock<TypeTable> = LazyLock::new(|| {
        TypeTable::parse(crate::recorded::TYPES.as_bytes())
            .expect("the recorded types are part of the program, and the tests read them")
    });
    &TYPES
}

/// Returns the types, shared by tests.
#[cfg(test)]
pub fn recorded() -> &'static TypeTable {
    built_in()
}

#[cfg(test)]
mod tests;
