//! Criteria for one label, annotation or field.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::ValueFilter;
use super::callback::Param;
use crate::cause::Cause;
use crate::equality::equal;
use crate::patch::BoxError;

static NULL: Value = Value::Null;

/// A criterion for a label or an annotation.
#[derive(Clone)]
pub enum MetaCriterion {
    /// This exact value.
    Literal(String),
    /// Any value, including the empty string.
    Present,
    /// Absent.
    Absent,
    /// Any value that the function accepts.
    Callback(Arc<dyn ValueFilter>),
}

impl MetaCriterion {
    pub(crate) fn fits(
        &self,
        value: Option<&Value>,
        cause: &Cause,
        context: &dyn Any,
        param: Option<&Param>,
    ) -> Result<bool, BoxError> {
        match self {
            Self::Literal(literal) => Ok(value.is_some_and(|value| *value == **literal)),
            Self::Present => Ok(value.is_some()),
            Self::Absent => Ok(value.is_none()),
            Self::Callback(filter) => {
                filter.matches_for(value.unwrap_or(&NULL), cause, context, param)
            }
        }
    }
}

impl fmt::Debug for MetaCriterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => fmt::Debug::fmt(literal, f),
            Self::Present => f.write_str("PRESENT"),
            Self::Absent => f.write_str("ABSENT"),
            Self::Callback(_) => f.write_str("callback"),
        }
    }
}

impl From<&str> for MetaCriterion {
    fn from(literal: &str) -> Self {
        Self::Literal(literal.to_owned())
    }
}

/// A criterion for a field.
#[derive(Clone)]
pub enum ValueCriterion {
    /// This exact value.
    Literal(Value),
    /// Any value.
    Present,
    /// Absent.
    Absent,
    /// Any value that the function accepts.
    Callback(Arc<dyn ValueFilter>),
}

impl ValueCriterion {
    pub(crate) fn fits(
        &self,
        value: Option<&Value>,
        cause: &Cause,
        context: &dyn Any,
        param: Option<&Param>,
    ) -> Result<bool, BoxError> {
        match self {
            Self::Literal(literal) => Ok(value.is_some_and(|value| equal(value, literal))),
            Self::Present => Ok(value.is_some()),
            Self::Absent => Ok(value.is_none()),
            Self::Callback(filter) => {
                filter.matches_for(value.unwrap_or(&NULL), cause, context, param)
            }
        }
    }
}

impl fmt::Debug for ValueCriterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => fmt::Display::fmt(literal, f),
            Self::Present => f.write_str("PRESENT"),
            Self::Absent => f.write_str("ABSENT"),
            Self::Callback(_) => f.write_str("callback"),
        }
    }
}

impl<V: Into<Value>> From<V> for ValueCriterion {
    fn from(literal: V) -> Self {
        Self::Literal(literal.into())
    }
}
