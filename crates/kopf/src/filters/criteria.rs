//! Criteria for labels, annotations and values of fields.

use kopf_core::filter::{MetaCriterion, ValueCriterion};
use serde_json::Value;

use super::functions::ValueFunction;
use crate::extract::{Declared, Rejection};

/// For filters: requires any value.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples", labels = {"some-label": PRESENT})]
/// fn labelled() {}
/// ```
pub const PRESENT: Present = Present;

/// For filters: requires that there is no value.
///
/// ```
/// use kopf::Old;
/// use kopf::prelude::*;
///
/// #[kopf::on::update("kopfexamples", field = "spec.field", new = ABSENT)]
/// fn removed(Old(old): Old) {}
/// ```
pub const ABSENT: Absent = Absent;

/// The type of [`PRESENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present;

/// The type of [`ABSENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absent;

/// A criterion for a label or an annotation: an exact string, [`PRESENT`], [`ABSENT`], or a
/// [function](ValueFunction) of its value.
///
/// `M` distinguishes functions from other values. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a criterion for a label or an annotation",
    label = "not a criterion for strings",
    note = "expected a string, PRESENT, ABSENT, or a function, as in `|value: &Value| value == \"x\"`"
)]
pub trait IntoMetaCriterion<M> {
    /// Converts the value.
    fn into_meta_criterion(self) -> MetaCriterion;

    /// Rejects arguments that are not available to the handler.
    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        let _ = declared;
        Ok(())
    }
}

/// A criterion for the value of a field: an exact value, [`PRESENT`], [`ABSENT`], or a
/// [function](ValueFunction) of it.
///
/// `M` distinguishes functions from other values. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a criterion for a value",
    label = "not a criterion for values",
    note = "expected a string, a number, a boolean, a JSON `Value`, PRESENT, ABSENT, or a function, as in \
            `|value: &Value| value == \"x\"`"
)]
pub trait IntoValueCriterion<M> {
    /// Converts the value.
    fn into_value_criterion(self) -> ValueCriterion;

    /// Rejects arguments that are not available to the handler.
    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        let _ = declared;
        Ok(())
    }
}

/// For criteria: a value.
#[derive(Debug)]
pub struct Literal;

/// For criteria: a function with these arguments.
#[derive(Debug)]
pub struct Callback<M>(std::marker::PhantomData<M>);

impl IntoMetaCriterion<Literal> for Present {
    fn into_meta_criterion(self) -> MetaCriterion {
        MetaCriterion::Present
    }
}

impl IntoMetaCriterion<Literal> for Absent {
    fn into_meta_criterion(self) -> MetaCriterion {
        MetaCriterion::Absent
    }
}

impl IntoMetaCriterion<Literal> for &str {
    fn into_meta_criterion(self) -> MetaCriterion {
        MetaCriterion::Literal(self.to_owned())
    }
}

impl IntoMetaCriterion<Literal> for String {
    fn into_meta_criterion(self) -> MetaCriterion {
        MetaCriterion::Literal(self)
    }
}

impl IntoMetaCriterion<Literal> for MetaCriterion {
    fn into_meta_criterion(self) -> MetaCriterion {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<M, F: ValueFunction<M>> IntoMetaCriterion<Callback<M>> for F {
    fn into_meta_criterion(self) -> MetaCriterion {
        MetaCriterion::Callback(self.into_value_filter())
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        F::check(declared)
    }
}

impl IntoValueCriterion<Literal> for Present {
    fn into_value_criterion(self) -> ValueCriterion {
        ValueCriterion::Present
    }
}

impl IntoValueCriterion<Literal> for Absent {
    fn into_value_criterion(self) -> ValueCriterion {
        ValueCriterion::Absent
    }
}

impl IntoValueCriterion<Literal> for ValueCriterion {
    fn into_value_criterion(self) -> ValueCriterion {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<M, F: ValueFunction<M>> IntoValueCriterion<Callback<M>> for F {
    fn into_value_criterion(self) -> ValueCriterion {
        ValueCriterion::Callback(self.into_value_filter())
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        F::check(declared)
    }
}

macro_rules! literals {
    ($($literal:ty),*) => {$(
        impl IntoValueCriterion<Literal> for $literal {
            fn into_value_criterion(self) -> ValueCriterion {
                ValueCriterion::Literal(Value::from(self))
            }
        }
    )*};
}

literals!(Value, &str, String, bool, i32, i64, u32, u64, usize, f64);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta<M>(criterion: impl IntoMetaCriterion<M>) -> MetaCriterion {
        criterion.into_meta_criterion()
    }

    fn value<M>(criterion: impl IntoValueCriterion<M>) -> ValueCriterion {
        criterion.into_value_criterion()
    }

    #[test]
    fn strings_markers_and_functions_are_criteria_for_labels() {
        assert!(matches!(meta("x"), MetaCriterion::Literal(text) if text == "x"));
        assert!(matches!(meta(PRESENT), MetaCriterion::Present));
        assert!(matches!(meta(ABSENT), MetaCriterion::Absent));
        assert!(matches!(
            meta(|value: &Value| value.is_null()),
            MetaCriterion::Callback(_)
        ));
        let negated = meta(crate::not_(|value: &Value| value.is_null()));
        assert!(matches!(negated, MetaCriterion::Callback(_)));
    }

    #[test]
    fn json_markers_and_functions_are_criteria_for_values() {
        assert!(matches!(value("x"), ValueCriterion::Literal(literal) if literal == "x"));
        assert!(matches!(value(5), ValueCriterion::Literal(literal) if literal == 5));
        assert!(matches!(value(true), ValueCriterion::Literal(literal) if literal == true));
        assert!(
            matches!(value(json!([1])), ValueCriterion::Literal(literal) if literal == json!([1]))
        );
        assert!(matches!(value(PRESENT), ValueCriterion::Present));
        assert!(matches!(value(ABSENT), ValueCriterion::Absent));
        assert!(matches!(
            value(|value: &Value| value == 5),
            ValueCriterion::Callback(_)
        ));
    }
}
