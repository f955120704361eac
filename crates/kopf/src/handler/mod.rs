//! Functions as handlers: what they must be like, and how they are called by the engine.
//!
//! A function of the user, with extractors as arguments, becomes a [`HandlerFunction`], which hides
//! its type behind the seam of the engine. The attribute macros make them in their own way, with
//! one step for every argument, so that the compiler points at the right one.

/// Uses a macro for every number of arguments, from none to 16; what is in parentheses goes to it
/// first, each time.
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

use crate::extract::{Context, Declared, Extract, Rejection};
use crate::indexing::Keeping;

/// A function that can be a handler: async or not, with up to 16 arguments which can be
/// [extracted](crate::extract), and a result that can be [reported](crate::IntoOutcome).
///
/// Functions that are not async run in threads of a bounded pool: they can block.
///
/// # About the type parameter
///
/// `M` contains the types of the arguments: a function could have several signatures otherwise, as
/// far as the compiler knows. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a handler",
    label = "not a handler",
    note = "a handler is `async fn` or `fn`, with arguments that are extractors (see `kopf::extract`), and a \
            result such as `()` or `kopf::Result<T>`; its future must be `Send`",
    note = "`#[kopf::on::create(…)]` on the function tells which of them is wrong"
)]
pub trait Handler<M> {
    /// Hides the type of the function.
    fn into_function(self) -> HandlerFunction;
}

/// A function whose type is hidden, ready to be called by the engine.
#[derive(Clone)]
pub struct HandlerFunction {
    pub(crate) name: Option<&'static str>,
    pub(crate) id: FunctionId,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) run: Function,
    /// What it keeps, if it keeps an index.
    pub(crate) keeping: Option<Keeping>,
}

impl HandlerFunction {
    pub(crate) fn new<F: 'static>(arguments: Vec<Argument>, run: impl Invoke + 'static) -> Self {
        Self {
            name: own_name(type_name::<F>()),
            id: FunctionId::Type(TypeId::of::<F>()),
            arguments,
            run: Arc::new(run),
            keeping: None,
        }
    }

    /// The same function, for an index.
    pub(crate) fn keeping(self, keeping: Keeping) -> Self {
        Self {
            keeping: Some(keeping),
            ..self
        }
    }

    /// Refuses arguments that can never be made.
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

/// For [`Handler`]: a function whose type is hidden already.
#[derive(Debug)]
pub struct Prepared;

#[diagnostic::do_not_recommend]
impl Handler<Prepared> for HandlerFunction {
    fn into_function(self) -> HandlerFunction {
        self
    }
}

/// An argument of a function, as far as it matters before a call.
#[derive(Clone, Copy)]
pub struct Argument {
    name: &'static str,
    check: fn(&Declared<'_>) -> Result<(), Rejection>,
}

impl Argument {
    /// An argument of this type; the name is for messages.
    pub fn new<T: Extract>(name: &'static str) -> Self {
        Self {
            name,
            check: T::check,
        }
    }
}

impl fmt::Debug for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Argument({})", self.name)
    }
}

/// Makes an argument for a call; if it cannot be made, the error says which one of whom.
pub(crate) fn extract<T: Extract>(call: &Call, argument: &str) -> Result<T, HandlerError> {
    T::extract(&Context::of_call(call)).map_err(|rejection| {
        let handler = &call.id;
        let object = match call.cause() {
            Some(_) => format!(" for {}", call.logger.reference()),
            None => String::new(),
        };
        crate::permanent(format_args!(
            "handler '{handler}' cannot be called{object}: argument {argument}: {rejection}"
        ))
        .into_engine()
    })
}

/// The last part of a path to a function; closures have none.
fn own_name(path: &'static str) -> Option<&'static str> {
    let name = path.rsplit("::").next()?;
    (!name.contains(['{', '}', '<', '>', '(', ')'])).then_some(name)
}

/// An async function, as the attribute macros see it.
#[derive(Clone, Copy)]
pub(crate) struct Asynchronous(pub(crate) fn(Call) -> BoxFuture<'static, HandlerResult>);

impl Invoke for Asynchronous {
    fn invoke(&self, call: Call) -> Work {
        Work::Async((self.0)(call))
    }
}

/// A blocking function, as the attribute macros see it.
#[derive(Clone, Copy)]
pub(crate) struct Blocking(pub(crate) fn(Call) -> HandlerResult);

impl Invoke for Blocking {
    fn invoke(&self, call: Call) -> Work {
        let run = self.0;
        Work::Blocking(Box::new(move || run(call)))
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
    fn identity_is_the_type() {
        assert_eq!(function(one).id, function(one).id);
        assert_ne!(function(one).id, function(other).id);
    }

    #[test]
    fn arguments_are_known() {
        assert_eq!(function(one).arguments.len(), 1);
        assert_eq!(function(other).arguments.len(), 2);
        assert_eq!(function(|| {}).arguments.len(), 0);
    }
}
