//! Combinations of filters.

use std::sync::Arc;

use kopf_core::filter::{self, ValueFilter, WhenFilter};

use super::functions::{ValueFunction, When};
use crate::extract::{Declared, Rejection};

/// A negated filter. See [`not_`].
#[derive(Debug, Clone, Copy)]
pub struct Not<F>(F);

/// A conjunction of filters. See [`all_`].
#[derive(Debug, Clone, Copy)]
pub struct All<F>(F);

/// A disjunction of filters. See [`any_`].
#[derive(Debug, Clone, Copy)]
pub struct Any<F>(F);

/// A negated disjunction of filters. See [`none_`].
#[derive(Debug, Clone, Copy)]
pub struct None<F>(F);

/// Negates a filter, for `when` or for values.
///
/// ```
/// use kopf::Body;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples", when = kopf::not_(is_protected))]
/// fn create_fn() {}
///
/// fn is_protected(body: &Body) -> bool {
///     body.label("protected").is_some()
/// }
/// ```
pub fn not_<F>(filter: F) -> Not<F> {
    Not(filter)
}

/// Requires all filters of a tuple of up to 8, for `when` or for values.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("pods", labels = {"app": kopf::all_((is_long, kopf::not_(is_test)))})]
/// fn create_fn() {}
///
/// fn is_long(value: &Value) -> bool {
///     value.as_str().is_some_and(|text| text.len() > 5)
/// }
///
/// fn is_test(value: &Value) -> bool {
///     value == "testing"
/// }
/// ```
pub fn all_<F>(filters: F) -> All<F> {
    All(filters)
}

/// Requires at least one filter of a tuple of up to 8, for `when` or for values.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("pods", labels = {"app": kopf::any_((is_web, is_test))})]
/// fn create_fn() {}
///
/// fn is_web(value: &Value) -> bool {
///     value == "web"
/// }
///
/// fn is_test(value: &Value) -> bool {
///     value == "testing"
/// }
/// ```
pub fn any_<F>(filters: F) -> Any<F> {
    Any(filters)
}

/// Requires that no filter of a tuple of up to 8 matches, for `when` or for values.
///
/// ```
/// use kopf::Body;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples", when = kopf::none_((is_protected, is_paused)))]
/// fn create_fn() {}
///
/// fn is_protected(body: &Body) -> bool {
///     body.label("protected").is_some()
/// }
///
/// fn is_paused(Spec(spec): Spec) -> bool {
///     spec["paused"] == true
/// }
/// ```
pub fn none_<F>(filters: F) -> None<F> {
    None(filters)
}

#[diagnostic::do_not_recommend]
impl<M, F: When<M>> When<Not<M>> for Not<F> {
    fn into_when(self) -> Arc<dyn WhenFilter> {
        filter::not_(self.0.into_when())
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        F::check(declared)
    }
}

#[diagnostic::do_not_recommend]
impl<M, F: ValueFunction<M>> ValueFunction<Not<M>> for Not<F> {
    fn into_value_filter(self) -> Arc<dyn ValueFilter> {
        filter::not_(self.0.into_value_filter())
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        F::check(declared)
    }
}

macro_rules! combinations {
    ($combination:ident, $combine:path, $($F:ident $M:ident $field:tt),*) => {
        #[diagnostic::do_not_recommend]
        impl<$($M, $F: When<$M>),*> When<$combination<($($M,)*)>> for $combination<($($F,)*)> {
            fn into_when(self) -> Arc<dyn WhenFilter> {
                $combine([$(self.0.$field.into_when()),*])
            }

            fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
                $($F::check(declared)?;)*
                Ok(())
            }
        }

        #[diagnostic::do_not_recommend]
        impl<$($M, $F: ValueFunction<$M>),*> ValueFunction<$combination<($($M,)*)>>
            for $combination<($($F,)*)>
        {
            fn into_value_filter(self) -> Arc<dyn ValueFilter> {
                $combine([$(self.0.$field.into_value_filter()),*])
            }

            fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
                $($F::check(declared)?;)*
                Ok(())
            }
        }
    };
}

macro_rules! all_combinations {
    ($($parts:tt)*) => {
        combinations!(All, filter::all_, $($parts)*);
        combinations!(Any, filter::any_, $($parts)*);
        combinations!(None, filter::none_, $($parts)*);
    };
}

all_combinations!(F0 M0 0);
all_combinations!(F0 M0 0, F1 M1 1);
all_combinations!(F0 M0 0, F1 M1 1, F2 M2 2);
all_combinations!(F0 M0 0, F1 M1 1, F2 M2 2, F3 M3 3);
all_combinations!(F0 M0 0, F1 M1 1, F2 M2 2, F3 M3 3, F4 M4 4);
all_combinations!(F0 M0 0, F1 M1 1, F2 M2 2, F3 M3 3, F4 M4 4, F5 M5 5);
all_combinations!(F0 M0 0, F1 M1 1, F2 M2 2, F3 M3 3, F4 M4 4, F5 M5 5, F6 M6 6);
all_combinations!(F0 M0 0, F1 M1 1, F2 M2 2, F3 M3 3, F4 M4 4, F5 M5 5, F6 M6 6, F7 M7 7);
