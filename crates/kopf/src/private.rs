//! Items for the code that the attribute macros generate. Not a public API: they change without
//! notice.

use std::any::TypeId;
use std::sync::Arc;

use futures::future::BoxFuture;
pub use inventory;
use kopf_core::handler::FunctionId;
use kopf_core::outcome::HandlerError;
use kopf_engine::invocation::Function;
pub use kopf_engine::invocation::{Call, HandlerResult};
pub use kopf_macros::declared;

pub use crate::definitions::{Builtin, Custom, Definition, Probe};
use crate::extract::Extract;
pub use crate::handler::Argument;
use crate::handler::{self, Asynchronous, Blocking, HandlerFunction};
use crate::indexing;
pub use crate::indices::Listing;
use crate::indices::{IndexOf, IndexTypes, IntoEntries};
use crate::login::IntoCredentials;
use crate::on::{self, AnyHandler, IntoRequeue};
use crate::outcome::IntoOutcome;
pub use crate::registration::Registration;
use crate::selecting::{IntoSelect, ResourceType, Select};

/// Returns an empty selector, which options complete.
pub fn select() -> Select {
    Select::default()
}

/// Returns the resource of a type, with its CRD if it is a custom resource.
pub fn select_kind<K: ResourceType>(definition: Option<Definition>) -> Select {
    K::select().defined_by(definition)
}

/// Converts names, a marker or a predicate.
pub fn select_from<M>(resource: impl IntoSelect<M>) -> Select {
    resource.into_select()
}

/// Marks the handlers of the attributes of one function, so that they cannot be added twice.
pub fn attributed<F: 'static>(handlers: Vec<AnyHandler>) -> Vec<AnyHandler> {
    let handlers = (0..).zip(handlers);
    let marked = handlers.map(|(position, mut handler)| {
        handler.attribute = Some((TypeId::of::<F>(), position));
        handler
    });
    marked.collect()
}

/// Returns the identity of a function.
pub fn function_id<F: 'static>(_: &F) -> FunctionId {
    FunctionId::Type(TypeId::of::<F>())
}

/// Wraps an async function.
pub fn asynchronous(run: fn(Call) -> BoxFuture<'static, HandlerResult>) -> Function {
    Arc::new(Asynchronous(run))
}

/// Wraps a blocking function.
pub fn blocking(run: fn(Call) -> HandlerResult) -> Function {
    Arc::new(Blocking(run))
}

/// Extracts an argument of a function.
pub fn extract<T: Extract>(call: &Call, argument: &str) -> Result<T, HandlerError> {
    handler::extract(call, argument)
}

/// Converts the result of a function.
pub fn outcome<R: IntoOutcome>(result: R) -> HandlerResult {
    result.into_outcome()
}

/// Converts the result of a login function.
pub fn credentials<R: IntoCredentials>(result: R) -> HandlerResult {
    crate::login::deliver(result)
}

/// Stores the entries that an index function returned.
pub fn entries<R: IntoEntries>(result: R) -> HandlerResult {
    indexing::store_entries(result)
}

/// Stores the request that a reconcile handler returned.
pub fn requeue<R: IntoRequeue>(result: R) -> HandlerResult {
    on::store_requeue(result)
}

/// Attaches the index that the function maintains.
pub fn with_index<I: IndexOf>(function: HandlerFunction) -> HandlerFunction {
    function.with_index(IndexTypes::of_index::<I>())
}

/// Returns a function with its metadata.
pub fn function(
    name: &'static str,
    id: FunctionId,
    arguments: &[Argument],
    run: Function,
) -> HandlerFunction {
    HandlerFunction {
        name: Some(name),
        id,
        arguments: arguments.to_vec(),
        run,
        index_types: None,
    }
}
