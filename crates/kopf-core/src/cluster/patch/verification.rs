//! Verification of responses to merge patches.
//!
//! A schema that prunes unknown fields drops them silently: the status would be lost in every
//! cycle. Therefore, the response is compared with the request.

use serde_json::Value;

use crate::diff::{Diff, DiffItem, diff_left_scoped};

/// Returns the part of the sent merge patch that is not in the response, for a warning.
///
/// Absent deleted fields are expected, and so are empty stanzas of the metadata, which Kubernetes
/// never stores.
pub fn inconsistencies(sent: &Value, answer: &Value) -> Diff {
    let found = diff_left_scoped(sent, answer);
    let tolerated = |item: &DiffItem| {
        item.new.is_null() && only_deletes(&item.old)
            || is_empty(&item.old) && is_empty(&item.new) && is_dropped_when_empty(item)
    };
    if found.iter().any(tolerated) {
        found
            .iter()
            .filter(|item| !tolerated(item))
            .cloned()
            .collect()
    } else {
        found
    }
}

/// Returns `true` for an object of nulls only, at any depth.
fn only_deletes(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => !map.is_empty() && map.values().all(only_deletes),
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn is_dropped_when_empty(item: &DiffItem) -> bool {
    match item.field.steps() {
        [metadata, key] => {
            &**metadata == "metadata" && matches!(&**key, "annotations" | "finalizers" | "labels")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(sent: &Value, answer: &Value) -> Value {
        serde_json::to_value(inconsistencies(sent, answer)).unwrap()
    }

    #[test]
    fn lost_and_changed_fields_are_found() {
        assert_eq!(
            found(
                &json!({"status": {"kopf": {"progress": {"fn": {"retries": 1}}}}, "spec": {"a": 1}}),
                &json!({"status": {}, "spec": {"a": 2, "b": 3}, "metadata": {}}),
            ),
            json!([
                ["change", ["spec", "a"], 1, 2],
                ["remove", ["status", "kopf"], {"progress": {"fn": {"retries": 1}}}, null],
            ])
        );
        assert_eq!(
            found(&json!({"spec": {"a": null}}), &json!({"spec": {"a": 1}})),
            json!([["add", ["spec", "a"], null, 1]])
        );
    }

    #[test]
    fn stored_and_deleted_fields_are_consistent() {
        for (sent, answer) in [
            (&json!({}), &json!({"spec": 1})),
            (&json!({"spec": {"a": 1}}), &json!({"spec": {"a": 1.0}})),
            (&json!({"spec": {"a": null}}), &json!({"spec": {}})),
            (
                &json!({"metadata": {"annotations": {"a": null}}}),
                &json!({"metadata": {}}),
            ),
            (
                &json!({"status": {"kopf": {"progress": {"fn": null}}}}),
                &json!({}),
            ),
        ] {
            assert_eq!(found(sent, answer), json!([]));
        }
    }

    #[test]
    fn empty_stanzas_may_vanish_from_the_metadata_only() {
        for key in ["annotations", "labels"] {
            assert_eq!(
                found(&json!({"metadata": {key: {}}}), &json!({"metadata": {}})),
                json!([])
            );
        }
        assert_eq!(
            found(
                &json!({"metadata": {"finalizers": []}}),
                &json!({"metadata": {}})
            ),
            json!([])
        );
        assert_eq!(
            found(&json!({"spec": {"labels": {}}}), &json!({"spec": {}})),
            json!([["remove", ["spec", "labels"], {}, null]])
        );
        assert_eq!(
            found(
                &json!({"metadata": {"labels": {"a": "b"}}}),
                &json!({"metadata": {}})
            ),
            json!([["remove", ["metadata", "labels"], {"a": "b"}, null]])
        );
    }
}
