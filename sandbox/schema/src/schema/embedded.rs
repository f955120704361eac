//! Embedded resources: fields with `x-kubernetes-embedded-resource`.

use serde_json::{Map, Value};

use super::node::Node;
use super::path::Path;
use crate::field_error::FieldError;

/// The fields of `metadata` of all objects.
const METADATA_FIELDS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Drops unknown fields of the metadata of an embedded resource.
pub(super) fn prune_metadata(resource: &mut Value, path: &Path<'_>, pruned: &mut Vec<String>) {
    let Some(metadata) = resource.get_mut("metadata") else {
        return;
    };
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let Value::Object(metadata) = metadata else {
        return;
    };
    let at = path.field("metadata");
    metadata.retain(|key, value| {
        let known = METADATA_FIELDS.contains(&key.as_str());
        if !known {
            pruned.push(at.field(key).bracketed());
        }
        known && !value.is_null()
    });
}

/// Validates the identity and metadata of every embedded resource.
pub(super) fn validate(node: &Node, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if node.embedded {
                resource(map, path, errors);
            }
            for (key, value) in map {
                if let Some(property) = node.properties.get(key) {
                    validate(property, value, &path.field(key), errors);
                } else if let Some(schema) = node.of_key(key) {
                    validate(schema, value, &path.key(key), errors);
                }
            }
        }
        Value::Array(list) => {
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

fn resource(map: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for key in ["apiVersion", "kind"] {
        let at = path.field(key).bracketed();
        match map.get(key) {
            None => errors.push(FieldError::required(at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(
                    at,
                    &text.as_str().into(),
                    "must not be empty",
                ));
            }
            Some(Value::String(text)) if key == "apiVersion" && text.matches('/').count() > 1 => {
                let detail = format!("unexpected GroupVersion string: {text}");
                errors.push(FieldError::invalid(at, &text.as_str().into(), &detail));
            }
            Some(Value::String(text)) if key == "kind" => {
                if let Some(reason) = crate::object::names::kind_name_problem(text) {
                    errors.push(FieldError::invalid(at, &text.as_str().into(), &reason));
                }
            }
            Some(Value::String(_)) => {}
            Some(other) => errors.push(FieldError::invalid(at, other, "must be a string")),
        }
    }
    if let Some(metadata) = map.get("metadata") {
        metadata_rules(metadata, &path.field("metadata"), errors);
    }
}

/// Validates the metadata of an embedded resource: types, and names that are invalid in a path.
/// Other rules do not apply, because it is not stored under its name.
fn metadata_rules(metadata: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(map) = metadata.as_object() else {
        let detail = "must be an object";
        errors.push(FieldError::invalid(path.bracketed(), metadata, detail));
        return;
    };
    for key in ["labels", "annotations"] {
        let Some(value) = map.get(key).filter(|value| !value.is_null()) else {
            continue;
        };
        let texts = value
            .as_object()
            .is_some_and(|map| map.values().all(Value::is_string));
        if !texts {
            let at = path.field(key).bracketed();
            errors.push(FieldError::invalid(at, value, "must be a map of strings"));
        }
    }
    for key in ["name", "generateName", "namespace"] {
        let at = path.field(key).bracketed();
        match map.get(key) {
            Some(Value::String(text)) if key != "namespace" => {
                for reason in path_segment_problems(text) {
                    errors.push(FieldError::invalid(
                        at.clone(),
                        &text.as_str().into(),
                        &reason,
                    ));
                }
            }
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => errors.push(FieldError::invalid(at, other, "must be a string")),
        }
    }
}

fn path_segment_problems(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .into_iter()
        .filter(|illegal| name.contains(illegal))
        .map(|illegal| format!("may not contain '{illegal}'"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::node::compile;
    use super::*;

    fn texts(value: &Value) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"pod": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        }}});
        let mut errors = Vec::new();
        validate(
            &compile(&schema).unwrap(),
            &json!({"pod": value}),
            &Path::Root,
            &mut errors,
        );
        errors.iter().map(FieldError::text).collect()
    }

    #[test]
    fn embedded_resources_require_kind_and_api_version() {
        assert_eq!(
            texts(&json!({})),
            ["pod.apiVersion: Required value", "pod.kind: Required value"]
        );
        assert_eq!(
            texts(&json!({"apiVersion": "a/b/c", "kind": ""})),
            [
                r#"pod.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#,
                r#"pod.kind: Invalid value: "": must not be empty"#,
            ]
        );
        assert!(texts(&json!({"apiVersion": "v1", "kind": "Pod", "spec": {}})).is_empty());
    }

    #[test]
    fn embedded_names_must_be_valid_path_segments() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b"}});
        assert_eq!(
            texts(&pod),
            [r#"pod.metadata.name: Invalid value: "a/b": may not contain '/'"#]
        );
    }
}
