//! Conversion of the results of handlers.

use std::collections::{BTreeMap, HashMap};

use kopf_engine::invocation::HandlerResult;
use serde::Serialize;
use serde_json::Value;

use crate::error::Error;
use crate::view::View;

/// A return value of handlers.
///
/// Values are stored in the status of the object, under the id of the handler; `()`, `None` and
/// null store nothing. An `Err` fails this attempt.
///
/// | type | meaning |
/// |---|---|
/// | `()` | no result |
/// | [`kopf::Result<T>`](crate::Result), or `Result<T, E>` with any error type | a serialisable value, or an error |
/// | `Option<T>` | a serialisable value, or no result |
/// | [`Value`], strings, numbers, booleans, lists, maps | a value |
/// | [`Json<T>`](Json) | any serialisable value |
///
/// The parameter determines the accepted errors: all, or only [`Error`] in sub-handlers, so that
/// closures need no type annotations.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned from a handler",
    label = "not a result of handlers",
    note = "return `()`, `kopf::Result<T>`, `Option<T>`, a JSON `Value`, a string, a number, a list or a map; \
            `kopf::Json(…)` for any other serialisable value"
)]
pub trait IntoOutcome<E = AnyError> {
    /// Converts the value for the engine.
    fn into_outcome(self) -> HandlerResult;
}

/// For [`IntoOutcome`]: errors of any type are accepted.
#[derive(Debug)]
pub struct AnyError;

/// For [`IntoOutcome`]: errors are [`Error`]s, so that closures need no type annotations.
#[derive(Debug)]
pub struct KopfError;

/// An error that handlers can return: [`kopf::Error`](Error), and everything that is `Into<Box<dyn
/// Error + Send + Sync>>`, such as error types, `anyhow::Error`, `eyre::Report` and strings.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a handler",
    label = "not an error of handlers",
    note = "errors of handlers are `kopf::Error`, as in `kopf::Result<T>`, and everything that is \
            `Into<Box<dyn Error + Send + Sync>>`: error types, `anyhow::Error`, `eyre::Report`, strings"
)]
pub trait IntoError {
    /// Converts the error.
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
/// Not needed inside of [`kopf::Result`](crate::Result) and `Option`, which accept any serialisable
/// value.
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
        // A retry cannot succeed: the type is not serialisable.
        Err(error) => Err(crate::permanent(format!(
            "cannot serialise the result of the handler: {error}"
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
    fn empty_results_are_not_reported() {
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
    fn unserialisable_results_are_errors() {
        let keys_must_be_texts = BTreeMap::from([((1, 2), 3)]);
        let error = outcome(keys_must_be_texts).unwrap_err();
        assert!(
            error.starts_with("cannot serialise the result of the handler"),
            "{error}"
        );
    }
}
