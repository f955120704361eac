//! Functions as handlers: their signatures, and calls by the engine.
//!
//! A user's function with extractors as arguments is converted to a [`HandlerFunction`], which
//! erases its type. The attribute macros convert functions themselves, one argument per statement,
//! so that compiler errors point at the wrong argument.

/// Calls a macro for every number of arguments from 0 to 16. The tokens in parentheses are passed
/// first.
macro_rules! all_lengths {
    ($each:ident $(($($first:tt)*))?) => {
        $crate::handler::all_lengths!($each ($($($first)*)?) [] T1 "number 1", T2 "number 2",
            T3 "number 3", T4 "number 4", T5 "number 5", T6 "number 6", T7 "number 7",
            T8 "number 8", T9 "number 9", T10 "number 10", T11 "number 11", T12 "number 12",
            T13 "number 13", T14 "number 14", T15 "number 15", T16 "number 16");
    };
    ($each:ident ($($first:tt)*) [$($T:ident $name:literal),*]) => {
        $each!($($first)* $($T $name),*);
    };
    (
        $each:ident ($($first:tt)*) [$($T:ident $name:literal),*]
        $next_T:ident $next_name:literal $(, $rest_T:ident $rest_name:literal)*
    ) => {
        $each!($($first)* $($T $name),*);
        $crate::handler::all_lengths!(
            $each ($($first)*) [$($T $name,)* $next_T $next_name] $($rest_T $rest_name),*
        );
    };
}
pub(crate) use all_lengths;

mod login;
mod once;
mod tuples;

pub use login::LoginHandler;
pub use once::SubHandler;
pub(crate) use tuples::{Async, Purpose, Threaded, Typed, functions};

use std::any::{TypeId, type_name};
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use kopf_core::handler::FunctionId;
use kopf_core::outcome::HandlerError;
use kopf_engine::invocation::{Call, Function, HandlerResult, Invoke, Work};
use tracing::{Instrument as _, Span};

use crate::extract::{Context, Declared, Extract, Rejection};
use crate::indices::{IndexTypes, Listing};

/// A function that can be a handler: async or blocking, with up to 16 arguments that can be
/// [extracted](crate::extract), and a result that can be [reported](crate::IntoOutcome).
///
/// Functions that are not async run in threads of a bounded pool and can block.
///
/// # Type parameter
///
/// `M` contains the types of the arguments, because a function type alone could have several
/// signatures. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a handler",
    label = "not a handler",
    note = "a handler is `async fn` or `fn`, with arguments that are extractors (see `kopf::extract`), and a \
            result such as `()` or `kopf::Result<T>`; its future must be `Send`",
    note = "`#[kopf::on::create(…)]` on the function reports the mismatch"
)]
pub trait Handler<M> {
    /// Erases the type of the function.
    fn into_function(self) -> HandlerFunction;
}

/// A type-erased function that the engine can call.
#[derive(Clone)]
pub struct HandlerFunction {
    pub(crate) name: Option<&'static str>,
    pub(crate) id: FunctionId,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) run: Function,
    /// The types of the index, for index functions.
    pub(crate) index_types: Option<IndexTypes>,
}

impl HandlerFunction {
    pub(crate) fn new<F: 'static>(arguments: Vec<Argument>, run: impl Invoke + 'static) -> Self {
        Self {
            name: own_name(type_name::<F>()),
            id: FunctionId::Type(TypeId::of::<F>()),
            arguments,
            run: Arc::new(run),
            index_types: None,
        }
    }

    /// Sets the types of the index.
    pub(crate) fn with_index(self, types: IndexTypes) -> Self {
        Self {
            index_types: Some(types),
            ..self
        }
    }

    /// Returns the arguments that list the objects of a kind, with their names.
    pub(crate) fn listings(&self) -> impl Iterator<Item = (&'static str, Listing)> {
        let arguments = self.arguments.iter();
        arguments.filter_map(|argument| Some((argument.name, (argument.listing)()?)))
    }

    /// Rejects arguments that are not available to the handler.
    pub(crate) fn check(&self, declared: &Declared<'_>) -> Result<(), String> {
        for argument in &self.arguments {
            (argument.check)(declared)
                .map_err(|rejection| format!("argument {}: {rejection}", argument.name))?;
        }
        Ok(())
    }
}

impl fmt::Debug for HandlerFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerFunction")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// For [`Handler`]: a type-erased function.
#[derive(Debug)]
pub struct Prepared;

#[diagnostic::do_not_recommend]
impl Handler<Prepared> for HandlerFunction {
    fn into_function(self) -> HandlerFunction {
        self
    }
}

/// Metadata of an argument for checks before calls.
#[derive(Clone, Copy)]
pub struct Argument {
    name: &'static str,
    check: fn(&Declared<'_>) -> Result<(), Rejection>,
    listing: fn() -> Option<Listing>,
}

impl Argument {
    /// Creates an argument of this type. Messages contain the name.
    pub fn new<T: Extract>(name: &'static str) -> Self {
        Self {
            name,
            check: T::check,
            listing: T::listing,
        }
    }
}

impl fmt::Debug for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Argument({})", self.name)
    }
}

/// Extracts an argument. The error contains the handler, the object and the argument.
pub(crate) fn extract<T: Extract>(call: &Call, argument: &str) -> Result<T, HandlerError> {
    T::extract(&Context::of_call(call)).map_err(|rejection| {
        let handler = &call.id;
        let object = match call.cause() {
            Some(_) => format!(" for {}", call.logger.reference()),
            None => String::new(),
        };
        crate::permanent(format!(
            "handler '{handler}' cannot be called{object}: argument {argument}: {rejection}"
        ))
        .into_engine()
    })
}

/// Returns the last part of a path to a function; `None` for closures.
fn own_name(path: &'static str) -> Option<&'static str> {
    let name = path.rsplit("::").next()?;
    (!name.contains(['{', '}', '<', '>', '(', ')'])).then_some(name)
}

/// Returns the span of a call with its object, so that records of `tracing` carry it in any
/// subscriber.
pub(crate) fn span(call: &Call) -> Span {
    let object = call.logger.reference();
    tracing::info_span!(
        target: "kopf.handlers",
        "handler",
        kopf.handler = &*call.id,
        k8s.kind = object.kind.as_deref(),
        k8s.namespace = object.namespace.as_deref(),
        k8s.name = object.name.as_deref(),
    )
}

/// Runs a function in a span.
pub(crate) fn in_span(span: Span, work: Work) -> Work {
    match work {
        work if span.is_disabled() => work,
        Work::Async(future) => Work::Async(Box::pin(future.instrument(span))),
        Work::Blocking(function) => Work::Blocking(Box::new(move || span.in_scope(function))),
        other => other,
    }
}

/// An async function from an attribute macro.
#[derive(Clone, Copy)]
pub(crate) struct Asynchronous(pub(crate) fn(Call) -> BoxFuture<'static, HandlerResult>);

impl Invoke for Asynchronous {
    fn invoke(&self, call: Call) -> Work {
        let span = span(&call);
        in_span(span, Work::Async((self.0)(call)))
    }
}

/// A blocking function from an attribute macro.
#[derive(Clone, Copy)]
pub(crate) struct Blocking(pub(crate) fn(Call) -> HandlerResult);

impl Invoke for Blocking {
    fn invoke(&self, call: Call) -> Work {
        let (run, span) = (self.0, span(&call));
        in_span(span, Work::Blocking(Box::new(move || run(call))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::{Name, Spec};

    async fn one(_: Name) {}
    fn other(_: Spec, Name(name): Name) -> String {
        name
    }

    fn function<M>(handler: impl Handler<M>) -> HandlerFunction {
        handler.into_function()
    }

    #[test]
    fn functions_have_names_and_closures_have_none() {
        assert_eq!(function(one).name, Some("one"));
        assert_eq!(function(other).name, Some("other"));
        assert_eq!(function(|_: Name| {}).name, None);
        assert_eq!(function(|_: Name| async {}).name, None);
    }

    #[test]
    fn function_id_is_the_type() {
        assert_eq!(function(one).id, function(one).id);
        assert_ne!(function(one).id, function(other).id);
    }

    #[test]
    fn arguments_are_recorded() {
        assert_eq!(function(one).arguments.len(), 1);
        assert_eq!(function(other).arguments.len(), 2);
        assert_eq!(function(|| {}).arguments.len(), 0);
    }
}
