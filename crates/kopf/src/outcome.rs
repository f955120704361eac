//! What handlers return, as the engine wants it.

use std::collections::{BTreeMap, HashMap};

use kopf_engine::invocation::HandlerResult;
use serde::Serialize;
use serde_json::Value;

use crate::error::Error;
use crate::extract::View;

/// What a handler can return.
///
/// A value goes to the status of the object, under the id of the handler; `()`, `None` and null
/// leave the status alone. An `Err` is a failure of this attempt.
///
/// | type | meaning |
/// |---|---|
/// | `()` | nothing to report |
/// | [`kopf::Result<T>`](crate::Result), or `Result<T, E>` with any error type | a value that can be serialised, or an error |
/// | `Option<T>` | a value that can be serialised, or nothing |
/// | [`Value`], texts, numbers, flags, lists, maps | a value |
/// | [`Json<T>`](Json) | any value that can be serialised |
///
/// The parameter says which errors are accepted: all, or in sub-handlers those of `kopf` alone, so
/// that closures need not say their type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned from a handler",
    label = "not a result of handlers",
    note = "return `()`, `kopf::Result<T>`, `Option<T>`, a JSON `Value`, a text, a number, a list or a map; \
            `kopf::Json(…)` around anything else that can be serialised"
)]
pub trait IntoOutcome<E = AnyError> {
    /// Converts it for the engine.
    fn into_outcome(self) -> HandlerResult;
}

/// For [`IntoOutcome`]: errors of any type are accepted.
#[derive(Debug)]
pub struct AnyError;

/// For [`IntoOutcome`]: errors are [`Error`]s, so that closures need not say so.
#[derive(Debug)]
pub struct KopfError;

/// What can be the error of a handler: [`kopf::Error`](Error), and all types that it is made from,
/// which are those that implement `std::error::Error + Send + Sync`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a handler",
    label = "not an error of handlers",
    note = "errors of handlers are `kopf::Error`, as in `kopf::Result<T>`, and types that implement \
            `std::error::Error + Send + Sync`; texts become errors by `kopf::Error::message`, `kopf::temporary`, \
            `kopf::permanent`"
)]
pub trait IntoError {
    /// Converts it.
    fn into_error(self) -> Error;
}

#[diagnostic::do_not_recommend]
impl<E: Into<Error>> IntoError for E {
    fn into_error(self) -> Error {
        self.into()
    }
}

/// A result of a handler that is serialised into the status.
///
/// Not needed inside of [`kopf::Result`](crate::Result) and `Option`, which take anything that can
/// be serialised.
///
/// ```
/// use kopf::Json;
/// use kopf::prelude::*;
///
/// #[kopf::schema]
/// struct Created { name: String }
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn(Name(name): Name) -> Json<Created> {
///     Json(Created { name })
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Json<T>(pub T);

fn report(value: impl Serialize) -> HandlerResult {
    match serde_json::to_value(value) {
        Ok(Value::Null) => Ok(None),
        Ok(value) => Ok(Some(value)),
        // Nothing changes until the next attempt: the type is wrong, not the world.
        Err(error) => Err(crate::permanent(format_args!(
            "the result of the handler cannot be serialised: {error}"
        ))
        .into_engine()),
    }
}

impl<E> IntoOutcome<E> for () {
    fn into_outcome(self) -> HandlerResult {
        Ok(None)
    }
}

impl<T: Serialize, E> IntoOutcome<E> for Option<T> {
    fn into_outcome(self) -> HandlerResult {
        report(self)
    }
}

impl<T: Serialize, E> IntoOutcome<E> for Json<T> {
    fn into_outcome(self) -> HandlerResult {
        report(self.0)
    }
}

impl<T: Serialize, E: IntoError> IntoOutcome<AnyError> for Result<T, E> {
    fn into_outcome(self) -> HandlerResult {
        match self {
            Ok(value) => report(value),
            Err(error) => Err(error.into_error().into_engine()),
        }
    }
}

impl<T: Serialize> IntoOutcome<KopfError> for Result<T, Error> {
    fn into_outcome(self) -> HandlerResult {
        IntoOutcome::<AnyError>::into_outcome(self)
    }
}

macro_rules! plain {
    ($([$($parameters:tt)*] $plain:ty),* $(,)?) => {$(
        impl<$($parameters)* E> IntoOutcome<E> for $plain {
            fn into_outcome(self) -> HandlerResult {
                report(self)
            }
        }
    )*};
}

plain! {
    [] Value,
    [] View,
    [] serde_json::Map<String, Value>,
    [] bool,
    [] String,
    [] &'static str,
    [] i8, [] i16, [] i32, [] i64, [] isize,
    [] u8, [] u16, [] u32, [] u64, [] usize,
    [] f32, [] f64,
    [T: Serialize,] Vec<T>,
    [K: Serialize, T: Serialize,] BTreeMap<K, T>,
    [K: Serialize, T: Serialize, S,] HashMap<K, T, S>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome(result: impl IntoOutcome) -> Result<Option<Value>, String> {
        result.into_outcome().map_err(|error| error.to_string())
    }

    #[derive(Serialize)]
    struct Claim {
        name: &'static str,
    }

    #[test]
    fn values_are_reported() {
        let expected = Ok(Some(json!({"name": "x"})));
        assert_eq!(outcome(Json(Claim { name: "x" })), expected);
        assert_eq!(outcome(Some(Claim { name: "x" })), expected);
        assert_eq!(outcome(Ok::<_, Error>(Claim { name: "x" })), expected);
        assert_eq!(outcome(json!({"name": "x"})), expected);
        assert_eq!(outcome(BTreeMap::from([("name", "x")])), expected);
        assert_eq!(outcome("text"), Ok(Some(json!("text"))));
        assert_eq!(outcome(5), Ok(Some(json!(5))));
        assert_eq!(outcome(vec![true]), Ok(Some(json!([true]))));
    }

    #[test]
    fn nothing_is_not_reported() {
        assert_eq!(outcome(()), Ok(None));
        assert_eq!(outcome(None::<Claim>), Ok(None));
        assert_eq!(outcome(Value::Null), Ok(None));
        assert_eq!(outcome(Ok::<_, Error>(())), Ok(None));
    }

    #[test]
    fn errors_of_any_type_are_errors() {
        let parsed: Result<u32, std::num::ParseIntError> = "x".parse();
        assert_eq!(
            outcome(parsed),
            Err("invalid digit found in string".to_owned())
        );
        let failed: crate::Result<()> = Err(crate::permanent("never"));
        assert_eq!(outcome(failed), Err("never".to_owned()));
    }

    #[test]
    fn what_cannot_be_serialised_is_an_error() {
        let keys_must_be_texts = BTreeMap::from([((1, 2), 3)]);
        let error = outcome(keys_must_be_texts).unwrap_err();
        assert!(
            error.starts_with("the result of the handler cannot be serialised"),
            "{error}"
        );
    }
}
