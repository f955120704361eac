//! Indices: what handlers of one kind of objects have prepared for handlers of any kind.
//!
//! Index handlers are called on every version of an object; what they return are the entries of
//! that object, by key. What keys and values are is a matter of the front: to the engine, an index
//! is an [`AnyIndex`], and entries are [`Entries`]. A front that has typed keys and values, as Rust
//! has, uses [`Index`] for it.
//!
//! Nothing else is done to any object before all indices are filled: see [`barrier`].

pub(crate) mod barrier;
mod index;
mod indices;
mod key;
mod store;

pub(crate) use barrier::{Barrier, Blocker};
pub use index::Index;
pub(crate) use indices::KindIndices;
pub use indices::{AnyIndex, Entries, Indices, Mismatch};
pub use key::ObjectKey;
pub use store::Store;
