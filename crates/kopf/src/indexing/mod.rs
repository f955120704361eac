//! Indices: what functions of one kind of objects have prepared for handlers of any kind.
//!
//! An index function is called on every version of every object, and returns entries: keys with
//! values. Handlers, filters and activities look them up by [`Index`], without a call to the API.
//! All indices are filled before any other handler of objects is called.
//!
//! ```
//! use kopf::Labels;
//! use kopf::prelude::*;
//!
//! #[kopf::index("pods")]
//! fn pods_by_app(labels: Labels, Name(name): Name) -> Option<(String, String)> {
//!     Some((labels.get("app")?.to_owned(), name)) // None: there is no entry for this pod
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
//! # What functions return
//!
//! See [`IntoEntries`]. The entries of an object replace its former ones: what is not returned any
//! more is removed. To keep what is there, return [`Indexed::Keep`].
//!
//! # When functions fail
//!
//! | error | the former entries of the object |
//! |---|---|
//! | an arbitrary one (`errors = IGNORED`, the default) | are kept |
//! | [`temporary`](crate::temporary), or an arbitrary one with `errors = TEMPORARY` | are removed; it is called again by the first event after the delay |
//! | [`permanent`](crate::permanent), or an arbitrary one with `errors = PERMANENT`; no attempts or no time are left | are removed; it is never called again for this object |
//!
//! So they are if the object does not match the filters of the function any more.

mod entries;
mod function;
mod keeping;
mod named;

pub use entries::{Indexed, IntoEntries, Plain, Returned};
pub(crate) use function::leave;
pub use function::{IndexFunction, index};
pub(crate) use keeping::Keeping;
#[doc(inline)]
pub use kopf_engine::indexing::Store;
pub use kopf_macros::index;
pub use named::{Index, IndexOf};
