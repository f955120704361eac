//! Arithmetic of numbers, strings, lists, timestamps and durations.

use std::sync::Arc;

use kube_cel::cel::Value;

use super::OUT_OF_BUDGET;
use super::bounded::MAX_BYTES;
use super::evaluate::Outcome;
use super::opaque::{ListKind, TypedList, as_list, as_typed_list, list, typed_list};
use super::operators::{NO_OVERLOAD, equal, same_keys};
use super::times;

pub(super) const OVERFLOW: &str = "integer overflow";
pub(super) const UNSIGNED_OVERFLOW: &str = "unsigned integer overflow";

pub(super) fn add(left: &Value, right: &Value) -> Outcome {
    if let (Some(items), Some(more)) = (as_list(left), as_list(right)) {
        return Ok(concatenated(as_typed_list(left), items, more));
    }
    match (left, right) {
        (Value::Float(a), Value::Float(b)) => Ok(Value::Float(a + b)),
        (Value::String(a), Value::String(b)) => {
            if a.len() + b.len() > MAX_BYTES {
                return Err(OUT_OF_BUDGET.to_owned());
            }
            Ok(Value::String(Arc::new(format!("{a}{b}"))))
        }
        (Value::Bytes(a), Value::Bytes(b)) => Ok(Value::Bytes(Arc::new(
            [a.as_slice(), b.as_slice()].concat(),
        ))),
        (Value::Duration(a), Value::Duration(b)) => times::bounded(a.checked_add(b)),
        (Value::Timestamp(time), Value::Duration(duration))
        | (Value::Duration(duration), Value::Timestamp(time)) => {
            times::in_range(time.checked_add_signed(*duration))
        }
        _ => integers(left, right, i64::checked_add, u64::checked_add),
    }
}

/// Concatenates lists. A set keeps one of equal items; a map list replaces items with equal keys.
fn concatenated(typed: Option<&TypedList>, items: &[Value], more: &[Value]) -> Value {
    let mut all = items.to_vec();
    let Some(typed) = typed else {
        all.extend_from_slice(more);
        return list(all);
    };
    for item in more {
        let known = all.iter_mut().find(|known| match &typed.kind {
            ListKind::Set => equal(known, item),
            ListKind::Map(keys) => same_keys(known, item, keys),
        });
        match known {
            Some(known) => *known = item.clone(),
            None => all.push(item.clone()),
        }
    }
    typed_list(typed.kind.clone(), all)
}

pub(super) fn subtract(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Float(a), Value::Float(b)) => Ok(Value::Float(a - b)),
        (Value::Duration(a), Value::Duration(b)) => times::bounded(a.checked_sub(b)),
        (Value::Timestamp(time), Value::Duration(duration)) => {
            times::in_range(time.checked_sub_signed(*duration))
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => {
            times::bounded(Some(a.signed_duration_since(b)))
        }
        _ => integers(left, right, i64::checked_sub, u64::checked_sub),
    }
}

pub(super) fn multiply(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Float(a), Value::Float(b)) => Ok(Value::Float(a * b)),
        _ => integers(left, right, i64::checked_mul, u64::checked_mul),
    }
}

pub(super) fn divide(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::UInt(_), Value::UInt(0)) => {
            Err("division by zero".to_owned())
        }
        (Value::Float(a), Value::Float(b)) => Ok(Value::Float(a / b)),
        _ => integers(left, right, i64::checked_div, u64::checked_div),
    }
}

pub(super) fn modulo(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::UInt(_), Value::UInt(0)) => {
            Err("modulus by zero".to_owned())
        }
        _ => integers(left, right, i64::checked_rem, u64::checked_rem),
    }
}

/// Applies an operation to integers of the same type.
fn integers(
    left: &Value,
    right: &Value,
    signed: fn(i64, i64) -> Option<i64>,
    unsigned: fn(u64, u64) -> Option<u64>,
) -> Outcome {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => signed(*a, *b).map(Value::Int).ok_or(OVERFLOW.into()),
        (Value::UInt(a), Value::UInt(b)) => {
            let result = unsigned(*a, *b).map(Value::UInt);
            result.ok_or(UNSIGNED_OVERFLOW.into())
        }
        _ => Err(NO_OVERLOAD.to_owned()),
    }
}
