//! In-memory indices, computed from objects and available to all handlers.
//!
//! An index function is called for every version of every object and returns entries: keys with
//! values. Handlers, filters and activities look them up by [`Index`], without API requests. All
//! indices are filled before any other handler of objects is called.
//!
//! ```
//! use kopf::Labels;
//! use kopf::prelude::*;
//!
//! #[kopf::index("pods")]
//! fn pods_by_app(labels: Labels, Name(name): Name) -> Option<(String, String)> {
//!     Some((labels.get("app")?.to_owned(), name)) // None: no entry for this pod
//! }
//!
//! #[kopf::on::create("kopfexamples")]
//! fn create_fn(pods: Index<pods_by_app>) -> usize {
//!     pods.get("web").len()
//! }
//! # let pods = Index::from_iter([("web".to_owned(), "pod-1".to_owned())]);
//! # assert_eq!(create_fn(pods), 1);
//! ```
//!
//! # Results
//!
//! See [`IntoEntries`]. The entries of an object replace its former ones. To keep those, return
//! [`Indexed::Keep`].
//!
//! # Errors
//!
//! | error | former entries of the object |
//! |---|---|
//! | an arbitrary one (`errors = IGNORED`, the default) | are kept |
//! | [`temporary`](crate::temporary), or an arbitrary one with `errors = TEMPORARY` | are removed; the function is called again for the first event after the delay |
//! | [`permanent`](crate::permanent), or an arbitrary one with `errors = PERMANENT`; retries or timeout exceeded | are removed; the function is not called again for this object |
//!
//! Entries are also removed if the object does not match the filters of the function any more.

mod entries;
mod function;
mod named;
mod types;

pub use entries::{Indexed, IntoEntries, Plain, Returned};
pub(crate) use function::store_entries;
pub use function::{IndexFunction, index};
#[doc(inline)]
pub use kopf_engine::indexing::Store;
pub use kopf_macros::index;
pub use named::{Index, IndexOf};
pub(crate) use types::IndexTypes;
