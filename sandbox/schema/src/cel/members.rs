//! Fields of objects, entries of maps and items of lists.

use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, Map};

use super::authorization;
use super::evaluate::Outcome;
use super::opaque::{as_list, as_optional, failure, none, of, type_name};
use super::operators::NO_OVERLOAD;
use super::values::reserved;

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
    match content(operand) {
        Some(Value::Map(map)) => match member(map, name) {
            Some(found) => available(found).map(|_| true),
            None => Ok(false),
        },
        None | Some(Value::Null) => Ok(false),
        Some(_) => Err(NO_OVERLOAD.to_owned()),
    }
}

/// Returns the content of an optional, or the value itself if it is not an optional.
fn content(value: &Value) -> Option<&Value> {
    match as_optional(value) {
        Some(optional) => optional.value(),
        None => Some(value),
    }
}

/// Returns a field as an optional.
pub(super) fn optional_field(operand: &Value, name: &str) -> Outcome {
    let Some(content) = content(operand) else {
        return Ok(none());
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

pub(super) fn index(operand: &Value, at: &Value) -> Outcome {
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

pub(super) fn optional_index(operand: &Value, at: &Value) -> Outcome {
    let Some(content) = content(operand) else {
        return Ok(none());
    };
    if as_list(content).is_none() && !matches!(content, Value::Map(_) | Value::Null) {
        return Err(NO_OVERLOAD.to_owned());
    }
    match item(content, at) {
        Ok(Some(item)) => available(item).map(of),
        Ok(None) | Err(_) => Ok(none()),
    }
}
