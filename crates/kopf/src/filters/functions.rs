//! Filter functions: `when` and callbacks for values.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::Cause;
use kopf_core::filter::{ValueFilter, WhenFilter};
use kopf_core::handler::Param;
use kopf_core::patch::BoxError;
use serde_json::Value;

use crate::extract::{Declared, FilterExtract, Rejection, with_filter_context};
use crate::outcome::IntoError;

/// A return value of filters: `bool`, or a `Result<bool, E>` with any error.
///
/// After an error, the object is not handled; the filter is retried later.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned from a filter",
    label = "filters return `bool`, or `Result<bool, E>`"
)]
pub trait FilterResult {
    /// Converts the value for the engine.
    fn into_verdict(self) -> Result<bool, BoxError>;
}

impl FilterResult for bool {
    fn into_verdict(self) -> Result<bool, BoxError> {
        Ok(self)
    }
}

impl<E: IntoError> FilterResult for Result<bool, E> {
    fn into_verdict(self) -> Result<bool, BoxError> {
        self.map_err(|error| error.into_error().into_boxed())
    }
}

/// A function for the option `when`. It has up to 8 arguments that can be
/// [extracted](crate::extract::FilterExtract), or the object as `&Body`, and returns a [`FilterResult`].
///
/// `M` contains the types of the arguments. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a filter",
    label = "not a filter",
    note = "a filter is a function or a closure that returns `bool`; its arguments are extractors that are available \
            before the call, such as `Spec` or `Labels`, or only `&Body`"
)]
pub trait When<M> {
    /// Erases the type of the function.
    fn into_when(self) -> Arc<dyn WhenFilter>;

    /// Rejects arguments that are not available to the handler.
    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        let _ = declared;
        Ok(())
    }
}

/// A callback for a label, an annotation, or the value of a field. It gets the value as `&Value`
/// (null if there is none) and up to 8 arguments that can be
/// [extracted](crate::extract::FilterExtract), and returns a [`FilterResult`].
///
/// `M` contains the types of the arguments. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a filter of values",
    label = "not a filter of values",
    note = "a filter of values is a function or a closure, as in `|value: &Value| value == \"x\"`; further \
            arguments are extractors that are available before the call, such as `Spec` or `Labels`"
)]
pub trait ValueFunction<M> {
    /// Erases the type of the function.
    fn into_value_filter(self) -> Arc<dyn ValueFilter>;

    /// Rejects arguments that are not available to the handler.
    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        let _ = declared;
        Ok(())
    }
}

/// Calls a user's function. It runs outside of handlers, so panics are caught here.
fn call_filter<V: FilterResult>(
    function: impl FnOnce() -> Result<V, Rejection>,
) -> Result<bool, BoxError> {
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(verdict) => verdict?.into_verdict(),
        Err(_) => Err("the filter panicked".into()),
    }
}

/// A function with the types of its arguments.
struct Typed<F, M>(F, PhantomData<fn() -> M>);

/// For [`When`]: a function that gets the object.
#[derive(Debug)]
pub struct OfBody;

#[diagnostic::do_not_recommend]
impl<F, V> When<OfBody> for F
where
    F: Fn(&Body) -> V + Send + Sync + 'static,
    V: FilterResult,
{
    fn into_when(self) -> Arc<dyn WhenFilter> {
        Arc::new(Typed::<F, OfBody>(self, PhantomData))
    }
}

impl<F, V> WhenFilter for Typed<F, OfBody>
where
    F: Fn(&Body) -> V + Send + Sync,
    V: FilterResult,
{
    fn matches(&self, cause: &Cause, _: &dyn Any) -> Result<bool, BoxError> {
        call_filter(|| Ok((self.0)(&cause.body)))
    }
}

macro_rules! functions {
    ($($T:ident),*) => {
        #[diagnostic::do_not_recommend]
        impl<F, V, $($T,)*> When<($($T,)*)> for F
        where
            F: Fn($($T),*) -> V + Send + Sync + 'static,
            V: FilterResult,
            $($T: FilterExtract + 'static,)*
        {
            fn into_when(self) -> Arc<dyn WhenFilter> {
                Arc::new(Typed::<F, ($($T,)*)>(self, PhantomData))
            }

            fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
                let _ = declared;
                $($T::check(declared)?;)*
                Ok(())
            }
        }

        impl<F, V, $($T,)*> WhenFilter for Typed<F, ($($T,)*)>
        where
            F: Fn($($T),*) -> V + Send + Sync,
            V: FilterResult,
            $($T: FilterExtract,)*
        {
            fn matches(&self, cause: &Cause, context: &dyn Any) -> Result<bool, BoxError> {
                self.matches_for(cause, context, None)
            }

            fn matches_for(
                &self,
                cause: &Cause,
                context: &dyn Any,
                param: Option<&Param>,
            ) -> Result<bool, BoxError> {
                call_filter(|| with_filter_context(cause, context, param, |context| {
                    let _ = context;
                    Ok((self.0)($($T::extract(context)?),*))
                }))
            }
        }

        #[diagnostic::do_not_recommend]
        impl<F, V, $($T,)*> ValueFunction<($($T,)*)> for F
        where
            F: Fn(&Value, $($T),*) -> V + Send + Sync + 'static,
            V: FilterResult,
            $($T: FilterExtract + 'static,)*
        {
            fn into_value_filter(self) -> Arc<dyn ValueFilter> {
                Arc::new(Typed::<F, (Value, $($T,)*)>(self, PhantomData))
            }

            fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
                let _ = declared;
                $($T::check(declared)?;)*
                Ok(())
            }
        }

        impl<F, V, $($T,)*> ValueFilter for Typed<F, (Value, $($T,)*)>
        where
            F: Fn(&Value, $($T),*) -> V + Send + Sync,
            V: FilterResult,
            $($T: FilterExtract,)*
        {
            fn matches(
                &self,
                value: &Value,
                cause: &Cause,
                context: &dyn Any,
            ) -> Result<bool, BoxError> {
                self.matches_for(value, cause, context, None)
            }

            fn matches_for(
                &self,
                value: &Value,
                cause: &Cause,
                context: &dyn Any,
                param: Option<&Param>,
            ) -> Result<bool, BoxError> {
                call_filter(|| with_filter_context(cause, context, param, |context| {
                    let _ = context;
                    Ok((self.0)(value, $($T::extract(context)?),*))
                }))
            }
        }
    };
}

functions!();
functions!(T1);
functions!(T1, T2);
functions!(T1, T2, T3);
functions!(T1, T2, T3, T4);
functions!(T1, T2, T3, T4, T5);
functions!(T1, T2, T3, T4, T5, T6);
functions!(T1, T2, T3, T4, T5, T6, T7);
functions!(T1, T2, T3, T4, T5, T6, T7, T8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_return_bools_or_errors() {
        assert!(call_filter(|| Ok(true)).unwrap());
        assert!(!call_filter(|| Ok(Ok::<_, crate::Error>(false))).unwrap());
        let error = call_filter(|| Ok(Err::<bool, _>(crate::permanent("no idea")))).unwrap_err();
        assert_eq!(error.to_string(), "no idea");
        let rejection = Rejection::Absent { part: "namespace" };
        let error = call_filter(|| Err::<bool, _>(rejection)).unwrap_err();
        assert!(error.to_string().starts_with("the object has no namespace"));
    }

    #[test]
    fn panics_are_errors() {
        fn broken() -> bool {
            panic!("oh no")
        }
        let error = call_filter(|| Ok(broken())).unwrap_err();
        assert_eq!(error.to_string(), "the filter panicked");
    }
}
