//! Results of handlers, stored in the status of their objects.

use serde_json::{Map, Value};

use crate::patch::Patch;

/// Stores the result of a handler under its full id in the status: objects are merged (only their
/// top level), other values are assigned. Null is ignored.
pub fn deliver(patch: &mut Patch, id: &str, value: Value) {
    match value {
        Value::Null => {}
        Value::Object(fields) => match patch.status_mut().get_mut(id) {
            Some(Value::Object(present)) => present.extend(fields),
            _ => insert(patch.status_mut(), id, Value::Object(fields)),
        },
        other => insert(patch.status_mut(), id, other),
    }
}

fn insert(status: &mut Map<String, Value>, id: &str, value: Value) {
    status.insert(id.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_merged_and_other_values_assigned() {
        let mut patch = Patch::default();
        deliver(&mut patch, "fn/spec.field", json!({"a": {"x": 1}, "b": 1}));
        deliver(
            &mut patch,
            "fn/spec.field",
            json!({"a": {"y": 2}, "c": null}),
        );
        deliver(&mut patch, "list", json!([1]));
        deliver(&mut patch, "text", json!({"a": 1}));
        deliver(&mut patch, "text", json!("b"));
        deliver(&mut patch, "object", json!(1));
        deliver(&mut patch, "object", json!({"a": 1}));
        deliver(&mut patch, "empty", json!({}));
        let expected = json!({
            "fn/spec.field": {"a": {"y": 2}, "b": 1, "c": null},
            "list": [1], "text": "b", "object": {"a": 1}, "empty": {},
        });
        assert_eq!(patch.merge["status"], expected);
    }

    #[test]
    fn null_is_not_delivered() {
        let mut patch = Patch::default();
        deliver(&mut patch, "fn", Value::Null);
        assert!(patch.is_empty() && patch.merge.is_empty());
    }
}
