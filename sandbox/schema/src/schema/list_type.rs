//! Sets and maps (`x-kubernetes-list-type`): rejection of duplicate items.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::node::{ListType, Node};
use super::path::Path;
use crate::field_error::FieldError;

/// Reports every repeated value of a set, and every repeated key of a map.
pub(super) fn validate(node: &Node, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let Some(property) = node.properties.get(key) {
                    validate(property, value, &path.field(key), errors);
                } else if let Some(schema) = node.of_key(key) {
                    validate(schema, value, &path.key(key), errors);
                }
            }
        }
        Value::Array(list) => {
            match &node.list_type {
                ListType::Atomic => {}
                ListType::Set => set(list, path, errors),
                ListType::Map(keys) => map_of_objects(keys, list, path, errors),
            }
            let Some(items) = node.items.as_deref() else {
                return;
            };
            for (index, value) in list.iter().enumerate() {
                validate(items, value, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

fn set(list: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for index in repeated(list.iter()) {
        if let Some(value) = list.get(index) {
            errors.push(FieldError::duplicate(path.index(index).bracketed(), value));
        }
    }
}

fn map_of_objects(keys: &[String], list: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let wrong = list
        .iter()
        .position(|value| !value.is_object() && !value.is_null());
    if let Some((index, value)) = wrong.and_then(|index| Some((index, list.get(index)?))) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(
            path.index(index).bracketed(),
            value,
            detail,
        ));
        return;
    }
    let identities: Vec<Value> = list.iter().map(|value| identity(keys, value)).collect();
    for index in repeated(identities.iter()) {
        if let Some(identity) = identities.get(index) {
            errors.push(FieldError::duplicate(
                path.index(index).bracketed(),
                identity,
            ));
        }
    }
}

/// Returns the present key fields of an item.
pub(super) fn identity(keys: &[String], member: &Value) -> Value {
    let fields: Map<String, Value> = keys
        .iter()
        .filter_map(|key| Some((key.clone(), member.get(key)?.clone())))
        .collect();
    Value::Object(fields)
}

/// Returns the positions at which values occur for the second time. Further repetitions are
/// skipped.
fn repeated<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times = times.saturating_add(1);
        if *times == 2 {
            found.push(index);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::node::compile;
    use super::*;

    fn texts(schema: &Value, list: &Value) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"l": schema}});
        let mut errors = Vec::new();
        validate(
            &compile(&schema).unwrap(),
            &json!({"l": list}),
            &Path::Root,
            &mut errors,
        );
        errors.iter().map(FieldError::text).collect()
    }

    #[test]
    fn duplicates_in_sets_are_reported_once() {
        let schema =
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
        assert_eq!(
            texts(&schema, &json!(["a", "b", "a", "a", "b"])),
            [
                r#"l[2]: Duplicate value: "a""#,
                r#"l[4]: Duplicate value: "b""#
            ]
        );
        assert!(texts(&schema, &json!(["a", "b"])).is_empty());
    }

    #[test]
    fn maps_compare_keys_only() {
        let schema = json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"],
            "items": {"type": "object"},
        });
        let list =
            json!([{"k": "a", "p": 1, "v": 1}, {"k": "a", "p": 2}, {"k": "a", "p": 1, "v": 2}]);
        assert_eq!(
            texts(&schema, &list),
            [r#"l[2]: Duplicate value: {"k":"a","p":1}"#]
        );
        assert_eq!(
            texts(&schema, &json!([{}, 5])),
            ["l[1]: Invalid value: 5: must be an object for an array of list-type map"]
        );
    }
}
