//! Redaction of values in log messages about Secrets.

use serde_json::Value;

use super::has_values;
use crate::diff::{Diff, DiffItem};

/// Replaces a value in log messages.
const REDACTED: &str = "<redacted>";

/// Copies the body of a Secret, or a merge patch of it, without values.
///
/// Annotations with JSON objects are redacted too: the diff-base and the annotation of
/// `kubectl apply` contain the values.
pub fn redact_body(body: &Value) -> Value {
    redact(&mut Vec::new(), body)
}

/// Copies a JSON patch of a Secret without values.
pub fn redact_operations(operations: &Value) -> Value {
    let Value::Array(items) = operations else {
        return operations.clone();
    };
    items.iter().map(redact_operation).collect()
}

/// Copies the differences between two versions of a Secret without values.
pub fn redact_diff(diff: &Diff) -> Diff {
    let redacted = diff.iter().map(|item| {
        let mut steps: Vec<&str> = item.field.steps().iter().map(AsRef::as_ref).collect();
        DiffItem {
            operation: item.operation,
            field: item.field.clone(),
            old: redact(&mut steps, &item.old),
            new: redact(&mut steps, &item.new),
        }
    });
    redacted.collect()
}

fn redact_operation(operation: &Value) -> Value {
    let mut redacted = operation.clone();
    let path = operation.get("path").and_then(Value::as_str);
    if let (Some(path), Some(value)) = (path, redacted.get_mut("value")) {
        // Escapes do not matter: the fields in question have none in their names.
        let mut steps: Vec<&str> = path.split('/').skip(1).collect();
        *value = redact(&mut steps, value);
    }
    redacted
}

/// Copies the value at a path of the object without secret values.
fn redact<'v>(steps: &mut Vec<&'v str>, value: &'v Value) -> Value {
    match (steps.as_slice(), value) {
        ([field, ..], value) if has_values(field) => hide(value),
        (["metadata", "annotations", _, ..], Value::String(text)) if text.starts_with('{') => {
            Value::from(REDACTED)
        }
        ([] | ["metadata"] | ["metadata", "annotations"], Value::Object(map)) => {
            let mut copied = serde_json::Map::new();
            for (key, value) in map {
                steps.push(key);
                copied.insert(key.clone(), redact(steps, value));
                steps.pop();
            }
            Value::Object(copied)
        }
        _ => value.clone(),
    }
}

fn hide(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Object(map) => {
            let hidden = map.iter().map(|(key, value)| (key.clone(), hide(value)));
            Value::Object(hidden.collect())
        }
        _ => Value::from(REDACTED),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diff::diff;

    fn secret(password: &str) -> Value {
        json!({
            "kind": "Secret", "type": "Opaque", "stringData": {"b": password},
            "metadata": {"name": "s", "annotations": {
                "kopf.zalando.org/last-handled-configuration": format!("{{{password}}}\n"),
                "plain": "text",
            }},
            "data": {"a": password, "gone": null},
        })
    }

    #[test]
    fn bodies_and_merge_patches_are_redacted() {
        let expected = json!({
            "kind": "Secret", "type": "Opaque", "stringData": {"b": "<redacted>"},
            "metadata": {"name": "s", "annotations": {
                "kopf.zalando.org/last-handled-configuration": "<redacted>",
                "plain": "text",
            }},
            "data": {"a": "<redacted>", "gone": null},
        });
        assert_eq!(redact_body(&secret("hunter2")), expected);
        assert_eq!(
            redact_body(&json!({"data": "x"})),
            json!({"data": "<redacted>"})
        );
        assert_eq!(redact_body(&json!(null)), json!(null));
    }

    #[test]
    fn json_patches_are_redacted() {
        let operations = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "5"},
            {"op": "add", "path": "/data/tls~1key", "value": "hunter2"},
            {"op": "add", "path": "/stringData", "value": {"a": "hunter2"}},
            {"op": "add", "path": "/metadata/annotations/a~1b", "value": "{hunter2}"},
            {"op": "add", "path": "/metadata/labels/l", "value": "kept"},
            {"op": "replace", "path": "", "value": {"data": {"a": "hunter2"}}},
            {"op": "remove", "path": "/data/a"},
        ]);
        let redacted = redact_operations(&operations);
        assert!(!redacted.to_string().contains("hunter2"), "{redacted}");
        assert_eq!(redacted[0], operations[0]);
        assert_eq!(redacted[1]["value"], "<redacted>");
        assert_eq!(redacted[4], operations[4]);
        assert_eq!(redacted[6], operations[6]);
        assert_eq!(redact_operations(&json!("x")), json!("x"));
    }

    #[test]
    fn diffs_are_redacted() {
        let (old, new) = (secret("hunter2"), secret("hunter3"));
        let redacted = redact_diff(&diff(&old, &new));
        assert_eq!(redacted.len(), 3);
        assert!(!redacted.to_string().contains("hunter"), "{redacted}");
        let fields: Vec<_> = redacted.iter().map(|item| item.field.to_string()).collect();
        assert!(fields.contains(&"data.a".to_owned()), "{fields:?}");
        let created = redact_diff(&diff(&json!(null), &new));
        assert!(!created.to_string().contains("hunter"), "{created}");
        let labels = diff(
            &json!({"metadata": {}}),
            &json!({"metadata": {"labels": {"a": "b"}}}),
        );
        assert_eq!(redact_diff(&labels), labels);
    }
}
