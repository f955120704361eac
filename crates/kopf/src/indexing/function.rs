//! Functions that keep indices.

use kopf_engine::indexing::Entries;
use kopf_engine::invocation::HandlerResult;

use super::{IntoEntries, Keeping};
use crate::error::Error;
use crate::handler::{self, HandlerFunction, Prepared, Purpose, functions};
use crate::on::{self, HandlerBuilder};
use crate::selecting::IntoSelect;

/// A function that can keep an index: async or not, with up to 16 arguments which can be
/// [extracted](crate::extract), and a result that is [entries](IntoEntries).
///
/// `M` contains the types of the arguments. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot keep an index",
    label = "not an index function",
    note = "an index function is `async fn` or `fn`, with arguments that are extractors (see `kopf::extract`), \
            and a result such as `Option<(K, V)>` (see `kopf::indexing::IntoEntries`); its future must be `Send`",
    note = "`#[kopf::index(…)]` on the function tells which of them is wrong"
)]
pub trait IndexFunction<M> {
    /// Hides the type of the function.
    fn into_function(self) -> HandlerFunction;
}

/// Calls the function on every version of every object, and keeps what it returns in an index: for
/// [`Index`](super::Index) in all handlers, filters and activities of the operator.
///
/// The index is named after the function, or as [`id`](HandlerBuilder::id) says. To ask for an index
/// that is not declared by an attribute, give it a type by [`IndexOf`](super::IndexOf):
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
) -> HandlerBuilder<on::Index> {
    let select = resource.into_select();
    let definition = select.definition();
    HandlerBuilder::declare(Some(select.build()), function.into_function()).defined_by(definition)
}

/// Leaves entries where the engine finds them.
pub(crate) fn leave<R: IntoEntries>(result: R) -> HandlerResult {
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
        leave(result)
    }

    fn declare(function: HandlerFunction) -> HandlerFunction {
        function.keeping(Keeping::of::<R>())
    }
}

handler::all_lengths!(functions(IndexFunction IntoEntries Indexing;));
