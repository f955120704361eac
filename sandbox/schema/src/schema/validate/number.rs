//! Numbers: ranges, multiples, and formatting.
//!
//! The server keeps whole numbers that fit as 64-bit integers and compares them with the bounds of
//! the schema truncated to integers; all others are floats.

use std::fmt;

use serde_json::Value;

use super::super::format::Format;
use super::super::node::{Node, Type};
use super::super::path::Path;
use super::Walk;
use super::outcome::Outcome;
use crate::field_error::{FieldError, FieldErrorKind};

/// Whole floats above this are not integers for the server.
const MAX_WHOLE: f64 = 9_007_199_254_740_991.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    pub(super) fn of(value: &Value) -> Option<Self> {
        let Value::Number(number) = value else {
            return None;
        };
        match number.as_i64() {
            Some(int) => Some(Self::Int(int)),
            None => number.as_f64().map(Self::Float),
        }
    }

    fn float(self) -> f64 {
        match self {
            Self::Int(int) => to_float(int),
            Self::Float(float) => float,
        }
    }

    /// Returns `true` if this equals the other number after a conversion to its type.
    #[allow(clippy::float_cmp, reason = "an enumeration lists exact values")]
    pub(super) fn converts_to(self, other: Self) -> bool {
        match other {
            Self::Int(other) => match self {
                Self::Int(int) => int == other,
                Self::Float(float) => to_int(float) == other,
            },
            Self::Float(other) => self.float() == other,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(int) => int.fmt(f),
            Self::Float(float) => f.write_str(&printed(*float)),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "as the server does")]
fn to_float(int: i64) -> f64 {
    int as f64
}

/// Truncates the fraction; saturates out of range.
#[allow(clippy::cast_possible_truncation, reason = "truncation is intended")]
fn to_int(float: f64) -> i64 {
    float as i64
}

/// Formats a float as Go does: shortest, with an exponent from 21 digits on.
fn printed(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..21).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{float}"),
    }
}

/// Returns `true` if a float is a whole number within a rounding error.
pub(super) fn is_whole(float: f64) -> bool {
    if !float.is_finite() || float.abs() > MAX_WHOLE {
        return false;
    }
    let whole = float.trunc();
    let difference = (float - whole).abs();
    difference == 0.0 || (whole != 0.0 && difference / (float.abs() + whole.abs()) < 1e-9)
}

impl Walk<'_> {
    pub(super) fn number(
        &self,
        node: &Node,
        number: Number,
        path: &Path<'_>,
        outcome: &mut Outcome,
    ) {
        let rules = &node.rules;
        let range = Range::of(node);
        if let Some(problem) = range.problem(number) {
            outcome.add(self.general(&format!("Checked value {problem} in {}", path.dotted())));
        }
        if let Some(factor) = rules.multiple_of {
            let problem = range.problem(Number::Float(factor));
            if let Some(problem) = &problem {
                let detail = format!("MultipleOf value {problem} in {}", path.dotted());
                outcome.add(self.general(&detail));
            }
            self.multiple(number, factor, problem.is_some(), path, outcome);
        }
        let low = (rules.minimum, "Minimum", rules.exclusive_minimum);
        let high = (rules.maximum, "Maximum", rules.exclusive_maximum);
        for (bound, name, exclusive) in [low, high] {
            let Some(bound) = bound else { continue };
            let problem = range.problem(Number::Float(bound));
            if let Some(problem) = &problem {
                let detail = format!("{name} boundary value {problem} in {}", path.dotted());
                outcome.add(self.general(&detail));
            }
            let bound = match number {
                Number::Int(_) if problem.is_none() => Number::Int(to_int(bound)),
                _ => Number::Float(bound),
            };
            let order = match (number, bound) {
                (Number::Int(number), Number::Int(bound)) => Some(number.cmp(&bound)),
                (number, bound) => number.float().partial_cmp(&bound.float()),
            };
            let Some(order) = order else { continue };
            let order = if name == "Minimum" {
                order
            } else {
                order.reverse()
            };
            if order.is_lt() || (exclusive && order.is_eq()) {
                let wording = match (name, exclusive) {
                    ("Minimum", false) => "should be greater than or equal to",
                    ("Minimum", true) => "should be greater than",
                    (_, false) => "should be less than or equal to",
                    (_, true) => "should be less than",
                };
                outcome.add(self.invalid_number(path, number, &format!("{wording} {bound}")));
            }
        }
    }

    fn multiple(
        &self,
        number: Number,
        factor: f64,
        as_float: bool,
        path: &Path<'_>,
        outcome: &mut Outcome,
    ) {
        let (factor, fits) = match number {
            Number::Int(int) if !as_float => {
                let factor = to_int(factor);
                let fits = factor > 0 && int.checked_rem(factor) == Some(0);
                (Number::Int(factor), fits)
            }
            _ => {
                let value = number.float();
                let times = if factor < 1.0 {
                    1.0 / factor * value
                } else {
                    value / factor
                };
                (Number::Float(factor), factor > 0.0 && is_whole(times))
            }
        };
        if factor.float() <= 0.0 {
            let at = path.dotted();
            let message = format!(
                "Invalid value: {factor}: factor MultipleOf declared for {at} must be positive: {factor}"
            );
            outcome.add(FieldError::new(
                FieldErrorKind::Invalid,
                self.field(path),
                message,
            ));
        } else if !fits {
            let detail = format!("should be a multiple of {factor}");
            outcome.add(self.invalid_number(path, number, &detail));
        }
    }

    fn invalid_number(&self, path: &Path<'_>, number: Number, detail: &str) -> FieldError {
        let message = format!(
            "Invalid value: {number}: {} in body {detail}",
            path.dotted()
        );
        FieldError::new(FieldErrorKind::Invalid, self.field(path), message)
    }
}

/// The range of numbers by the type and format of a schema.
enum Range {
    Any,
    Int32,
    /// Integers with a format, or without one.
    Int64 {
        format: bool,
    },
    Float32,
}

impl Range {
    fn of(node: &Node) -> Self {
        if node.int_or_string {
            return Self::Any;
        }
        match (node.type_name, node.format) {
            (Some(Type::Integer), Some(Format::Int32)) => Self::Int32,
            (Some(Type::Integer), format) => Self::Int64 {
                format: format.is_some(),
            },
            (Some(Type::Number), Some(Format::Float)) => Self::Float32,
            _ => Self::Any,
        }
    }

    fn problem(&self, number: Number) -> Option<&'static str> {
        let whole = match number {
            Number::Int(int) => Some(int),
            Number::Float(float) => (float.fract() == 0.0
                && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float))
            .then(|| to_int(float)),
        };
        match self {
            Self::Any => None,
            Self::Int32 if whole.is_some_and(|whole| i32::try_from(whole).is_ok()) => None,
            Self::Int32 => Some("must be of type integer with format int32"),
            Self::Int64 { .. } if whole.is_some() => None,
            Self::Int64 { format: true } => Some("must be of type integer with format int64"),
            Self::Int64 { format: false } => Some("must be of type integer (default format)"),
            Self::Float32 if number.float().abs() <= f64::from(f32::MAX) => None,
            Self::Float32 => Some("must be of type number with format float"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_printed_as_in_go() {
        let cases = [
            (1.0, "1"),
            (1.5, "1.5"),
            (-0.25, "-0.25"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.0, "0"),
        ];
        for (float, text) in cases {
            assert_eq!(Number::Float(float).to_string(), text);
        }
    }

    #[test]
    fn rounding_errors_are_tolerated() {
        assert!(is_whole(3.0) && is_whole(3.000_000_000_000_1) && is_whole(-2.0));
        assert!(!is_whole(3.1) && !is_whole(0.5) && !is_whole(1e300) && !is_whole(f64::NAN));
    }
}
