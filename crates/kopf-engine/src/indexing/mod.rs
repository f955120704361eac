//! Indices: in-memory maps that index handlers fill and all handlers can read.
//!
//! Index handlers are called for every version of an object and return its entries. The types of
//! keys and values are defined by the frontend: the engine uses [`AnyIndex`] and [`Entries`].
//! [`Index`] is an implementation with typed keys and values.
//!
//! Other handlers run only after all indices are filled: see [`barrier`].

pub(crate) mod barrier;
mod index;
mod indices;
mod key;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use barrier::{Barrier, Blocker};
pub use index::Index;
pub(crate) use indices::ResourceIndices;
pub use indices::{AnyIndex, Entries, Indices, Mismatch};
pub use key::ObjectKey;
pub use store::Store;
