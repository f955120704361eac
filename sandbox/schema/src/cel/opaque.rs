//! Values that the crate `cel` does not have: types, and lists of the types `set` and `map`.

use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::{Opaque, OptionalValue};

/// Names of types that are values of expressions.
pub(super) const TYPES: [&str; 15] = [
    "bool",
    "bytes",
    "double",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "int",
    "list",
    "map",
    "net.CIDR",
    "net.IP",
    "null_type",
    "optional_type",
    "string",
    "type",
    "uint",
];

/// A type as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TypeName(pub(super) String);

impl Opaque for TypeName {
    fn runtime_type_name(&self) -> &'static str {
        "type"
    }
}

/// The `x-kubernetes-list-type` of a list whose order is not significant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    Set,
    /// The items have these key fields.
    Map(Vec<String>),
}

/// A list whose order is not significant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TypedList {
    pub(super) kind: ListKind,
    pub(super) items: Arc<Vec<Value>>,
}

impl Opaque for TypedList {
    fn runtime_type_name(&self) -> &'static str {
        "list"
    }
}

/// A variable that could not be evaluated. The error is reported where the variable is used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failed(String);

impl Opaque for Failed {
    fn runtime_type_name(&self) -> &'static str {
        "error"
    }
}

/// Returns a value that fails where it is used as a field.
pub fn failed(error: String) -> Value {
    Value::Opaque(Arc::new(Failed(error)))
}

/// Returns the error of a value that fails where it is used.
pub(super) fn failure(value: &Value) -> Option<&str> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<Failed>().map(|it| it.0.as_str()),
        _ => None,
    }
}

/// Returns a list value.
pub(super) fn list(items: Vec<Value>) -> Value {
    Value::List(Arc::new(items))
}

/// Returns a list whose order is not significant.
pub fn typed_list(kind: ListKind, items: Vec<Value>) -> Value {
    let items = Arc::new(items);
    Value::Opaque(Arc::new(TypedList { kind, items }))
}

/// Returns the value as a list with a type, if it is one.
pub(super) fn as_typed_list(value: &Value) -> Option<&TypedList> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<TypedList>(),
        _ => None,
    }
}

/// Returns the items of a list.
pub(super) fn as_list(value: &Value) -> Option<&Arc<Vec<Value>>> {
    match value {
        Value::List(items) => Some(items),
        other => as_typed_list(other).map(|typed| &typed.items),
    }
}

/// Returns the value as an optional, if it is one.
pub(super) fn as_optional(value: &Value) -> Option<&OptionalValue> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<OptionalValue>(),
        _ => None,
    }
}

/// Returns an optional with a value.
pub(super) fn of(value: Value) -> Value {
    Value::Opaque(Arc::new(OptionalValue::of(value)))
}

/// Returns an optional without a value.
pub(super) fn none() -> Value {
    Value::Opaque(Arc::new(OptionalValue::none()))
}

/// Returns the type of a name.
pub(super) fn type_named(name: &str) -> Option<Value> {
    TYPES.contains(&name).then(|| type_value(name))
}

fn type_value(name: &str) -> Value {
    Value::Opaque(Arc::new(TypeName(name.to_owned())))
}

/// Returns the type of a value.
pub(super) fn type_of(value: &Value) -> Value {
    type_value(type_name(value))
}

/// Returns the name of the type of a value.
pub(super) fn type_name(value: &Value) -> &str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Null => "null_type",
        Value::Opaque(_) if as_optional(value).is_some() => "optional_type",
        Value::Opaque(opaque) => match opaque.runtime_type_name() {
            "kubernetes.IP" => "net.IP",
            "kubernetes.CIDR" => "net.CIDR",
            other => other,
        },
        Value::Function(..) => "function",
    }
}

/// Replaces lists with types by plain lists, for functions of the crates.
pub(super) fn plain(value: Value) -> Value {
    match value {
        Value::List(items) if items.iter().any(has_types) => {
            list(items.iter().cloned().map(plain).collect())
        }
        Value::Map(map) if map.map.values().any(has_types) => {
            let entries = map.map.iter();
            let entries = entries.map(|(key, value)| (key.clone(), plain(value.clone())));
            Value::from(entries.collect::<std::collections::HashMap<_, _>>())
        }
        other => match as_typed_list(&other) {
            Some(typed) => list(typed.items.iter().cloned().map(plain).collect()),
            None => other,
        },
    }
}

fn has_types(value: &Value) -> bool {
    match value {
        Value::List(items) => items.iter().any(has_types),
        Value::Map(map) => map.map.values().any(has_types),
        other => as_typed_list(other).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_values_have_no_typed_lists() {
        let typed = typed_list(ListKind::Set, vec![Value::Int(1)]);
        let nested = list(vec![typed.clone(), Value::Null]);
        assert_eq!(
            plain(nested),
            list(vec![list(vec![Value::Int(1)]), Value::Null])
        );
        assert_eq!(type_name(&typed), "list");
        assert_eq!(as_list(&typed).map(|items| items.len()), Some(1));
        assert!(as_optional(&none()).is_some_and(|it| it.value().is_none()));
    }
}
