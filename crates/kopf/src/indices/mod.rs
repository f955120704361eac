//! Indices as data: their entries, their types, and the view that handlers get.

mod entries;
mod lister;
mod named;
mod types;

pub use entries::{Indexed, IntoEntries, Plain, Returned};
pub use lister::{Lister, Listing};
pub use named::{Index, IndexOf};
pub(crate) use types::IndexTypes;
