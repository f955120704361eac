//! The parameter of the handler.

use std::any::type_name;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};

/// The option `param` of the handler.
///
/// Several handlers with the same function can differ in it. The type must be exactly that of the
/// declared value: a literal number is an `i32`, a literal string is a `&'static str`.
///
/// ```
/// use kopf::Param;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples", id = "small", param = 10)]
/// #[kopf::on::create("kopfexamples", id = "big", param = 1000)]
/// fn sized(Param(size): Param<i32>) -> i32 {
///     size
/// }
///
/// assert_eq!(sized(Param(10)), 10);
///
/// fn is_large(Param(limit): Param<i32>, Spec(spec): Spec) -> bool {
///     spec["size"].as_i64() > Some(limit.into())
/// }
///
/// #[kopf::on::create("kopfexamples", id = "large", param = 5000, when = is_large)]
/// fn large() {}
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Param<T>(pub T);

impl<T: Clone + Send + Sync + 'static> Extract for Param<T> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Self::extract_optional(context)?.ok_or(Rejection::NoParam)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        match declared.param {
            None => Err(Rejection::NoParam),
            Some(param) if param.is::<T>() => Ok(()),
            Some(_) => Err(other_param::<T>()),
        }
    }
}

impl<T: Clone + Send + Sync + 'static> OptionalExtract for Param<T> {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        match context.param() {
            None => Ok(None),
            Some(param) => match param.downcast_ref::<T>() {
                Some(param) => Ok(Some(Self(param.clone()))),
                None => Err(other_param::<T>()),
            },
        }
    }
}

impl<T: Clone + Send + Sync + 'static> FilterExtract for Param<T> {}

fn other_param<T>() -> Rejection {
    Rejection::OtherParam {
        type_name: type_name::<T>(),
    }
}
