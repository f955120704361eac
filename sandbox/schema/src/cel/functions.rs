//! Calls of functions and methods: own implementations first, then those of the crates.

use std::collections::HashMap;

use kube_cel::cel::common::ast::{CallExpr, Expr};
use kube_cel::cel::objects::{Key, OptionalValue};
use kube_cel::cel::{ExecutionError, IdedExpr, Value};

use super::evaluate::Outcome;
use super::opaque::{as_list, as_optional, list, none, of, plain, type_of};
use super::operators::{self, NO_OVERLOAD};
use super::{
    OUT_OF_BUDGET, authorization, conversions, formatting, library, lists, members, strings, times,
    urls,
};

/// Calls a function, or a method if there is a target.
pub(super) fn call(name: &str, target: Option<Value>, args: Vec<Value>) -> Outcome {
    let operator = match args.as_slice() {
        [value] => operators::unary(name, value),
        [left, right] => operators::binary(name, left, right),
        _ => None,
    };
    if target.is_none()
        && let Some(outcome) = operator
    {
        return outcome;
    }
    let all: Vec<&Value> = target.iter().chain(&args).collect();
    let own = match target.as_ref().and_then(as_optional) {
        Some(optional) => optional_method(name, optional.value(), &args),
        None => own(name, &all),
    };
    match own {
        Some(outcome) => outcome,
        None => of_library(name, target, args),
    }
}

/// Calls one of the functions below. Returns `None` if there is none for these arguments.
fn own(name: &str, all: &[&Value]) -> Option<Outcome> {
    optional_function(name, all)
        .or_else(|| conversions::call(name, all))
        .or_else(|| lists::call(name, all))
        .or_else(|| strings::call(name, all))
        .or_else(|| times::call(name, all))
        .or_else(|| urls::call(name, all))
        .or_else(|| authorization::call(name, all))
        .or_else(|| general(name, all))
}

fn general(name: &str, all: &[&Value]) -> Option<Outcome> {
    Some(match (name, all) {
        ("dyn", [value]) => Ok((*value).clone()),
        ("type", [value]) => Ok(type_of(value)),
        ("size", [value]) => size(value).map(Value::Int).ok_or(NO_OVERLOAD.to_owned()),
        ("format", [Value::String(text), values]) => {
            let values = as_list(values)?;
            formatting::formatted(text, values)
        }
        ("format.named", [Value::String(name)]) => {
            let found = of_library(&format!("format.{name}"), None, Vec::new());
            Ok(found.map_or_else(|_| none(), of))
        }
        ("isQuantity", [Value::String(text)]) if text.trim() != text.as_str() => {
            Ok(Value::Bool(false))
        }
        ("isCIDR", [Value::String(text)]) if has_padded_length(text) => Ok(Value::Bool(false)),
        ("semver", [Value::String(text), rest @ ..]) => {
            let library = |text: &str| {
                let mut args = vec![Value::from(text)];
                args.extend(rest.iter().map(|value| (*value).clone()));
                of_library(name, None, args)
            };
            // The build is checked, but not compared.
            let version = text
                .split_once('+')
                .map_or(text.as_str(), |(version, _)| version);
            library(text).and_then(|_| library(version))
        }
        ("@insert", [Value::Map(map), Value::Map(more)]) => {
            let entries = more.map.iter().map(|(key, value)| (key.clone(), value));
            inserted(&map.map, entries)
        }
        ("@insert", [Value::Map(map), key, value]) => match members::key(key) {
            Ok(key) => inserted(&map.map, std::iter::once((key, *value))),
            Err(error) => Err(error),
        },
        _ => return None,
    })
}

/// Returns `true` for a prefix length with leading zeros: `10.0.0.0/08`.
fn has_padded_length(text: &str) -> bool {
    let length = text.split_once('/').map_or("", |(_, length)| length);
    length.len() > 1 && length.starts_with('0')
}

fn inserted<'a>(
    map: &HashMap<Key, Value>,
    entries: impl Iterator<Item = (Key, &'a Value)>,
) -> Outcome {
    let mut map = map.clone();
    for (key, value) in entries {
        insert(&mut map, key, value.clone())?;
    }
    Ok(Value::from(map))
}

/// Adds an entry with a new key to a map.
pub(super) fn insert(map: &mut HashMap<Key, Value>, key: Key, value: Value) -> Result<(), String> {
    if map.contains_key(&key) {
        return Err(format!("insert failed: key {key} already exists"));
    }
    map.insert(key, value);
    Ok(())
}

#[allow(clippy::cast_possible_wrap, reason = "sizes fit in memory")]
fn size(value: &Value) -> Option<i64> {
    let size = match value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Map(map) => map.map.len(),
        other => as_list(other)?.len(),
    };
    Some(size as i64)
}

fn optional_function(name: &str, all: &[&Value]) -> Option<Outcome> {
    Some(match (name, all) {
        ("optional.none", []) => Ok(none()),
        ("optional.of", [value]) => Ok(of((*value).clone())),
        ("optional.ofNonZeroValue", [value]) => Ok(if is_zero(value) {
            none()
        } else {
            of((*value).clone())
        }),
        ("optional.unwrap" | "unwrapOpt", [values]) => {
            let items = as_list(values)?.iter().filter_map(as_optional);
            let items = items.filter_map(OptionalValue::value).cloned();
            Ok(list(items.collect()))
        }
        _ => return None,
    })
}

fn is_zero(value: &Value) -> bool {
    size(value).map_or_else(|| value.is_zero(), |size| size == 0)
}

fn optional_method(name: &str, content: Option<&Value>, args: &[Value]) -> Option<Outcome> {
    Some(match (name, args) {
        ("hasValue", []) => Ok(Value::Bool(content.is_some())),
        ("value", []) => content
            .cloned()
            .ok_or("optional.none() dereference".to_owned()),
        ("or" | "orValue", [other]) => Ok(other.clone()),
        _ => return Some(Err(NO_OVERLOAD.to_owned())),
    })
}

/// Calls a function of the crates.
pub(super) fn of_library(name: &str, target: Option<Value>, args: Vec<Value>) -> Outcome {
    let subject = match args.first() {
        Some(Value::String(text)) => text.to_string(),
        _ => String::new(),
    };
    let mut scope = library::base().new_inner_scope();
    let mut argument = |name: String, value: Value| {
        scope.add_variable_from_value(name.clone(), plain(value));
        IdedExpr {
            id: 0,
            expr: Expr::Ident(name),
        }
    };
    let target = target.map(|value| Box::new(argument("@target".to_owned(), value)));
    let numbered = args.into_iter().enumerate();
    let call = CallExpr {
        func_name: name.to_owned(),
        target,
        args: numbered
            .map(|(index, value)| argument(format!("@{index}"), value))
            .collect(),
    };
    let call = IdedExpr {
        id: 0,
        expr: Expr::Call(call),
    };
    Value::resolve(&call, &scope).map_err(|error| worded(name, &subject, &error))
}

/// Converts an error of the crates to the wording of a real server.
fn worded(name: &str, subject: &str, error: &ExecutionError) -> String {
    match error {
        ExecutionError::FunctionError { .. } if name == "quantity" => {
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned()
        }
        ExecutionError::FunctionError { .. } if name == "asInteger" => {
            "cannot convert value to integer".to_owned()
        }
        ExecutionError::FunctionError { .. } if name == "semver" => {
            "No Major.Minor.Patch elements found".to_owned()
        }
        ExecutionError::FunctionError { .. } if name == "ip" => format!(
            "IP Address {subject:?} parse error during conversion from string: ParseAddr({subject:?}): unable to parse IP"
        ),
        ExecutionError::FunctionError { message, .. } if message.ends_with(OUT_OF_BUDGET) => {
            OUT_OF_BUDGET.to_owned()
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        _ => NO_OVERLOAD.to_owned(),
    }
}
