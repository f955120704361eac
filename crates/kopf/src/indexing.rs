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
//! | an arbitrary one (`errors = kopf::ErrorsMode::Ignored`, the default) | are kept |
//! | [`temporary`](crate::temporary), or an arbitrary one with `ErrorsMode::Temporary` | are removed; the function is called again for the first event after the delay |
//! | [`permanent`](crate::permanent), or an arbitrary one with `ErrorsMode::Permanent`; retries or timeout exceeded | are removed; the function is not called again for this object |
//!
//! Entries are also removed if the object does not match the filters of the function any more.

use kopf_engine::indexing::Entries;
#[doc(inline)]
pub use kopf_engine::indexing::Store;
use kopf_engine::invocation::HandlerResult;
pub use kopf_macros::index;

use crate::error::Error;
use crate::handler::{self, HandlerFunction, Prepared, Purpose, functions};
use crate::indices::IndexTypes;
pub use crate::indices::{Index, IndexOf, Indexed, IntoEntries, Lister, Plain, Returned};
use crate::on::{self, HandlerBuilder};
use crate::selecting::IntoSelect;

/// A function that can maintain an index: async or blocking, with up to 16 arguments that can be
/// [extracted](crate::extract), and [entries](IntoEntries) as its result.
///
/// `M` contains the types of the arguments. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an index function",
    label = "not an index function",
    note = "an index function is `async fn` or `fn`, with arguments that are extractors (see `kopf::extract`), \
            and a result such as `Option<(K, V)>` (see `kopf::indexing::IntoEntries`); its future must be `Send`",
    note = "`#[kopf::index(…)]` on the function reports the mismatch"
)]
pub trait IndexFunction<M> {
    /// Erases the type of the function.
    fn into_function(self) -> HandlerFunction;
}

/// Calls the function for every version of every object and stores the returned entries in an
/// index, for [`Index`] arguments of all handlers, filters and activities of the
/// operator.
///
/// The name of the index is that of the function, or the [`id`](HandlerBuilder::id). For an index
/// that is not declared by an attribute, implement [`IndexOf`]:
///
/// ```
/// use kopf::IndexOf;
/// use kopf::Labels;
/// use kopf::prelude::*;
///
/// struct PodsByApp;
///
/// impl IndexOf for PodsByApp {
///     type Key = String;
///     type Value = String;
///     const ID: &'static str = "pods_by_app";
/// }
///
/// fn pods_by_app(labels: Labels, Name(name): Name) -> Option<(String, String)> {
///     Some((labels.get("app")?.to_owned(), name))
/// }
///
/// fn create_fn(pods: Index<PodsByApp>) -> usize {
///     pods.get("web").len()
/// }
///
/// let operator = Operator::builder()
///     .handler(kopf::index("pods", pods_by_app))
///     .handler(on::create("kopfexamples", create_fn))
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn index<S, M>(
    resource: impl IntoSelect<S>,
    function: impl IndexFunction<M>,
) -> HandlerBuilder<on::kinds::Index> {
    let select = resource.into_select();
    let definition = select.definition();
    HandlerBuilder::declare(Some(select.build()), function.into_function()).defined_by(definition)
}

/// Stores entries in the call's slot for the engine.
pub(crate) fn store_entries<R: IntoEntries>(result: R) -> HandlerResult {
    let entries = result.into_entries().map_err(Error::into_engine)?;
    if let (Some(entries), Some(call)) = (entries, kopf_engine::current()) {
        let entries: Entries = Box::new(entries);
        call.slot.put(entries);
    }
    Ok(None)
}

#[diagnostic::do_not_recommend]
impl IndexFunction<Prepared> for HandlerFunction {
    fn into_function(self) -> HandlerFunction {
        self
    }
}

/// Functions whose results are entries of an index.
struct Indexing;

impl<R: IntoEntries> Purpose<R> for Indexing {
    fn finish(result: R) -> HandlerResult {
        store_entries(result)
    }

    fn declare(function: HandlerFunction) -> HandlerFunction {
        function.with_index(IndexTypes::of::<R>())
    }
}

handler::all_lengths!(functions(IndexFunction IntoEntries Indexing;));
