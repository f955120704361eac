//! Operators of the language, for all types of values.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::operators;
use kube_cel::cel::objects::{Key, Map};

use super::arithmetic::{OVERFLOW, add, divide, modulo, multiply, subtract};
use super::authorization;
use super::evaluate::Outcome;
use super::opaque::{
    ListKind, TypedList, as_list, as_optional, as_typed_list, failure, none, of, type_name,
};
use super::values::reserved;

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

/// Converts a value to the key of a map.
#[allow(
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "only integral numbers are converted"
)]
pub(super) fn key(value: &Value) -> Result<Key, String> {
    match value {
        Value::String(text) => Ok(Key::String(Arc::clone(text))),
        Value::Int(number) => Ok(Key::Int(*number)),
        Value::UInt(number) => Ok(i64::try_from(*number).map_or(Key::Uint(*number), Key::Int)),
        Value::Bool(value) => Ok(Key::Bool(*value)),
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            Ok(Key::Int(*number as i64))
        }
        other => Err(format!("unsupported key type: {}", type_name(other))),
    }
}

/// Returns a member of a map by the name of a field. Reserved words are stored with underscores.
fn member<'v>(map: &'v Map, name: &str) -> Option<&'v Value> {
    let get = |name: &str| map.map.get(&Key::String(Arc::new(name.to_owned())));
    get(name).or_else(|| get(&reserved(name)?))
}

/// Returns a value, or the error of a variable that could not be evaluated.
fn available(value: &Value) -> Outcome {
    match failure(value) {
        Some(error) => Err(error.to_owned()),
        None => Ok(value.clone()),
    }
}

/// Returns a field of an object or map, also of an optional.
pub(super) fn field(operand: &Value, name: &str) -> Outcome {
    if as_optional(operand).is_some() {
        return optional_field(operand, name);
    }
    let missing = || format!("no such key: {name}");
    match operand {
        Value::Map(map) => available(member(map, name).ok_or_else(missing)?),
        Value::Null => Err(missing()),
        other => authorization::field(other, name).ok_or_else(|| NO_OVERLOAD.to_owned()),
    }
}

/// Returns `true` if an object or map has a field.
pub(super) fn has_field(operand: &Value, name: &str) -> Result<bool, String> {
    if let Some(content) = as_optional(operand) {
        let content = content.value();
        return content.map_or(Ok(false), |content| has_field(content, name));
    }
    match operand {
        Value::Map(map) => match member(map, name) {
            Some(found) => available(found).map(|_| true),
            None => Ok(false),
        },
        Value::Null => Ok(false),
        _ => Err(NO_OVERLOAD.to_owned()),
    }
}

/// Returns a field as an optional.
fn optional_field(operand: &Value, name: &str) -> Outcome {
    let content = match as_optional(operand) {
        None => operand,
        Some(optional) => match optional.value() {
            None => return Ok(none()),
            Some(content) => content,
        },
    };
    if has_field(content, name)? {
        return field(content, name).map(of);
    }
    Ok(none())
}

/// Returns an item of a list or map, if there is one.
fn item<'v>(operand: &'v Value, at: &Value) -> Result<Option<&'v Value>, String> {
    if let Some(items) = as_list(operand) {
        let position = match at {
            Value::Int(number) => usize::try_from(*number),
            Value::UInt(number) => usize::try_from(*number),
            Value::Float(number) => {
                return Err(format!("unsupported index value {number} in list"));
            }
            other => {
                let of = type_name(other);
                return Err(format!("unsupported index type '{of}' in list"));
            }
        };
        return Ok(position.ok().and_then(|position| items.get(position)));
    }
    match operand {
        Value::Map(map) => Ok(map.map.get(&key(at)?)),
        Value::Null => Ok(None),
        _ => Err(NO_OVERLOAD.to_owned()),
    }
}

fn index(operand: &Value, at: &Value) -> Outcome {
    if as_optional(operand).is_some() {
        return optional_index(operand, at);
    }
    if let Some(item) = item(operand, at)? {
        return available(item);
    }
    let shown = key(at).map_or_else(|_| String::new(), |key| key.to_string());
    Err(match as_list(operand) {
        Some(_) => format!("index out of bounds: {shown}"),
        None => format!("no such key: {shown}"),
    })
}

fn optional_index(operand: &Value, at: &Value) -> Outcome {
    let content = match as_optional(operand) {
        None => operand,
        Some(optional) => match optional.value() {
            None => return Ok(none()),
            Some(content) => content,
        },
    };
    if as_list(content).is_none() && !matches!(content, Value::Map(_) | Value::Null) {
        return Err(NO_OVERLOAD.to_owned());
    }
    match item(content, at) {
        Ok(Some(item)) => available(item).map(of),
        Ok(None) | Err(_) => Ok(none()),
    }
}
