//! Operators of the language, for all types of values.

use std::cmp::Ordering;

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::operators;

use super::arithmetic::{OVERFLOW, add, divide, modulo, multiply, subtract};
use super::evaluate::Outcome;
use super::members::{field, index, key, optional_field, optional_index};
use super::opaque::{ListKind, TypedList, as_list, as_optional, as_typed_list};

/// The error of a call whose arguments have the wrong types.
pub(super) const NO_OVERLOAD: &str = "no such overload";
const NO_ORDER: &str = "NaN values cannot be ordered";

/// Applies an operator with two operands. Returns `None` if the name is not an operator.
pub(super) fn binary(name: &str, left: &Value, right: &Value) -> Option<Outcome> {
    let compared = |matches: fn(Ordering) -> bool| {
        let order = compare(left, right)?;
        Ok(Value::Bool(matches(order.ok_or(NO_ORDER)?)))
    };
    Some(match name {
        operators::EQUALS => Ok(Value::Bool(equal(left, right))),
        operators::NOT_EQUALS => Ok(Value::Bool(!equal(left, right))),
        operators::LESS => compared(Ordering::is_lt),
        operators::LESS_EQUALS => compared(Ordering::is_le),
        operators::GREATER => compared(Ordering::is_gt),
        operators::GREATER_EQUALS => compared(Ordering::is_ge),
        operators::IN => contains(left, right),
        operators::INDEX => index(left, right),
        operators::OPT_INDEX => optional_index(left, right),
        operators::OPT_SELECT => match right {
            Value::String(name) => optional_field(left, name),
            _ => Err(NO_OVERLOAD.to_owned()),
        },
        operators::ADD => add(left, right),
        operators::SUBSTRACT => subtract(left, right),
        operators::MULTIPLY => multiply(left, right),
        operators::DIVIDE => divide(left, right),
        operators::MODULO => modulo(left, right),
        _ => return None,
    })
}

/// Applies an operator with one operand. Returns `None` if the name is not an operator.
pub(super) fn unary(name: &str, value: &Value) -> Option<Outcome> {
    Some(match (name, value) {
        (operators::LOGICAL_NOT, Value::Bool(value)) => Ok(Value::Bool(!value)),
        (operators::NEGATE, Value::Int(number)) => {
            number.checked_neg().map(Value::Int).ok_or(OVERFLOW.into())
        }
        (operators::NEGATE, Value::Float(number)) => Ok(Value::Float(-number)),
        (operators::LOGICAL_NOT | operators::NEGATE, _) => Err(NO_OVERLOAD.to_owned()),
        _ => return None,
    })
}

/// Compares values. The order of lists with types is not significant if the list is on the left.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    if let Some(typed) = as_typed_list(left) {
        return as_list(right).is_some_and(|items| same_items(typed, items));
    }
    if let (Some(left), Some(right)) = (as_list(left), as_list(right)) {
        return left.len() == right.len()
            && left.iter().zip(right.iter()).all(|(a, b)| equal(a, b));
    }
    if let (Some(left), Some(right)) = (as_optional(left), as_optional(right)) {
        return match (left.value(), right.value()) {
            (Some(left), Some(right)) => equal(left, right),
            (left, right) => left.is_none() && right.is_none(),
        };
    }
    match (left, right) {
        (Value::Map(left), Value::Map(right)) => {
            left.map.len() == right.map.len()
                && left.map.iter().all(|(key, value)| {
                    let other = right.map.get(key);
                    other.is_some_and(|other| equal(value, other))
                })
        }
        _ => match numbers(left, right) {
            Some(order) => order == Some(Ordering::Equal),
            None => left == right,
        },
    }
}

fn same_items(typed: &TypedList, items: &[Value]) -> bool {
    typed.items.len() == items.len()
        && match &typed.kind {
            ListKind::Set => typed
                .items
                .iter()
                .all(|item| items.iter().any(|other| equal(item, other))),
            ListKind::Map(keys) => typed.items.iter().all(|item| {
                let other = items.iter().find(|other| same_keys(item, other, keys));
                other.is_some_and(|other| equal(item, other))
            }),
        }
}

pub(super) fn same_keys(left: &Value, right: &Value, keys: &[String]) -> bool {
    keys.iter().all(|key| {
        let (left, right) = (field(left, key).ok(), field(right, key).ok());
        match (&left, &right) {
            (Some(left), Some(right)) => equal(left, right),
            _ => left.is_none() && right.is_none(),
        }
    })
}

/// Compares two numbers of any types. Returns `None` if one is not a number.
#[allow(clippy::option_option, reason = "numbers may have no order")]
fn numbers(left: &Value, right: &Value) -> Option<Option<Ordering>> {
    let integer = |value: &Value| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::UInt(number) => Some(i128::from(*number)),
        _ => None,
    };
    if let (Some(left), Some(right)) = (integer(left), integer(right)) {
        return Some(Some(left.cmp(&right)));
    }
    match (left, right) {
        (Value::Float(left), Value::Float(right)) => Some(left.partial_cmp(right)),
        (Value::Float(left), right) => integer(right).map(|right| with_float(*left, right)),
        (left, Value::Float(right)) => {
            integer(left).map(|left| with_float(*right, left).map(Ordering::reverse))
        }
        _ => None,
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the range is checked before the conversion"
)]
fn with_float(left: f64, right: i128) -> Option<Ordering> {
    if left.is_nan() {
        return None;
    }
    // All 64-bit integers are between these.
    if left >= 1e20 {
        return Some(Ordering::Greater);
    }
    if left <= -1e20 {
        return Some(Ordering::Less);
    }
    let whole = left.trunc() as i128;
    let order = whole.cmp(&right);
    Some(order.then(left.fract().partial_cmp(&0.0)?))
}

/// Orders two values. Returns `None` if they have no order: a number that is not a number.
pub(super) fn compare(left: &Value, right: &Value) -> Result<Option<Ordering>, String> {
    if let Some(order) = numbers(left, right) {
        return Ok(order);
    }
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Ok(Some(left.cmp(right))),
        (Value::String(left), Value::String(right)) => Ok(Some(left.cmp(right))),
        (Value::Bytes(left), Value::Bytes(right)) => Ok(Some(left.cmp(right))),
        (Value::Duration(left), Value::Duration(right)) => Ok(Some(left.cmp(right))),
        (Value::Timestamp(left), Value::Timestamp(right)) => Ok(Some(left.cmp(right))),
        _ => Err(NO_OVERLOAD.to_owned()),
    }
}

fn contains(item: &Value, container: &Value) -> Outcome {
    if let Some(items) = as_list(container) {
        let found = items.iter().any(|other| equal(item, other));
        return Ok(Value::Bool(found));
    }
    match container {
        Value::Map(map) => {
            let found = key(item).is_ok_and(|key| map.map.contains_key(&key));
            Ok(Value::Bool(found))
        }
        _ => Err(NO_OVERLOAD.to_owned()),
    }
}
