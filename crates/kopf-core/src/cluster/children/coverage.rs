//! Ownership of fields, as `metadata.managedFields` record it.

use serde_json::{Map, Value};

/// The fields of the metadata that have managers; the others identify the object.
const MANAGED_METADATA: [&str; 4] = ["annotations", "labels", "ownerReferences", "finalizers"];

/// Returns the fields that a manager has applied in this API version; `None` if there are none.
pub(super) fn owned_fields<'a>(
    live: &'a Value,
    manager: &str,
    api_version: &Value,
) -> Option<&'a Map<String, Value>> {
    let entries = live.get("metadata")?.get("managedFields")?.as_array()?;
    let is_own = |entry: &&Value| {
        let is = |key: &str, text: &str| entry.get(key).and_then(Value::as_str) == Some(text);
        is("manager", manager)
            && is("operation", "Apply")
            && entry.get("apiVersion") == Some(api_version)
            && entry.get("subresource").is_none_or(|text| text == "")
    };
    entries.iter().find(is_own)?.get("fieldsV1")?.as_object()
}

/// Returns `true` if every field of the manifest is among the fields.
pub(super) fn covers(fields: &Map<String, Value>, manifest: &Value) -> bool {
    let Some(manifest) = manifest.as_object() else {
        return false;
    };
    manifest.iter().all(|(key, value)| match key.as_str() {
        "apiVersion" | "kind" => true,
        "metadata" => covers_metadata(fields.get("f:metadata"), value),
        _ => covers_member(fields, key, value),
    })
}

fn covers_metadata(fields: Option<&Value>, metadata: &Value) -> bool {
    let empty = Map::new();
    let fields = fields.and_then(Value::as_object).unwrap_or(&empty);
    MANAGED_METADATA.iter().all(|key| {
        metadata
            .get(key)
            .is_none_or(|value| is_empty(value) || covers_member(fields, key, value))
    })
}

fn covers_member(fields: &Map<String, Value>, key: &str, value: &Value) -> bool {
    let nested = fields.get(&format!("f:{key}")).and_then(Value::as_object);
    nested.is_some_and(|nested| covers_value(nested, value))
}

fn covers_value(fields: &Map<String, Value>, value: &Value) -> bool {
    // A leaf is owned as a whole: a scalar, or an atomic list or map.
    if fields.is_empty() {
        return true;
    }
    match value {
        Value::Object(members) => members
            .iter()
            .all(|(key, value)| covers_member(fields, key, value)),
        Value::Array(items) => items.iter().all(|item| covers_item(fields, item)),
        _ => true,
    }
}

/// Items of lists are identified by their keys or values.
fn covers_item(fields: &Map<String, Value>, item: &Value) -> bool {
    fields.iter().any(|(step, nested)| {
        let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
        match step.split_once(':') {
            Some(("v", text)) => parse(text).as_ref() == Some(item),
            Some(("k", text)) => {
                let keys = parse(text);
                let is_meant = keys
                    .as_ref()
                    .and_then(Value::as_object)
                    .is_some_and(|keys| has_keys(item, keys));
                is_meant
                    && nested
                        .as_object()
                        .is_some_and(|nested| covers_value(nested, item))
            }
            _ => false,
        }
    })
}

/// Returns `true` if the item has these keys. Absent ones have defaults, such as the protocol of a
/// port.
fn has_keys(item: &Value, keys: &Map<String, Value>) -> bool {
    let mut is_any = false;
    let agree = keys.iter().all(|(key, value)| match item.get(key) {
        Some(own) => {
            is_any = true;
            own == value
        }
        None => true,
    });
    agree && is_any
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_covered(fields: &Value, spec: Value) -> bool {
        let fields = json!({"f:spec": fields});
        let manifest = Value::Object(Map::from_iter([("spec".to_owned(), spec)]));
        covers(fields.as_object().unwrap(), &manifest)
    }

    #[test]
    fn fields_of_maps_are_owned_one_by_one() {
        let fields = json!({".": {}, "f:a": {}, "f:b": {"f:c": {}}});
        assert!(is_covered(&fields, json!({"a": 1, "b": {"c": 2}})));
        assert!(!is_covered(&fields, json!({"a": 1, "x": 2})));
        assert!(!is_covered(&fields, json!({"b": {"c": 2, "d": 3}})));
    }

    #[test]
    fn atomic_values_are_owned_as_a_whole() {
        assert!(is_covered(
            &json!({"f:args": {}}),
            json!({"args": ["a", "b"]})
        ));
        assert!(is_covered(
            &json!({"f:selector": {}}),
            json!({"selector": {"a": {"b": 1}}})
        ));
    }

    #[test]
    fn items_are_owned_by_their_keys() {
        let fields = json!({"f:ports": {
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:name": {}},
        }});
        assert!(is_covered(
            &fields,
            json!({"ports": [{"containerPort": 80, "name": "x"}]})
        ));
        assert!(!is_covered(
            &fields,
            json!({"ports": [{"containerPort": 80, "hostPort": 1}]})
        ));
        assert!(!is_covered(
            &fields,
            json!({"ports": [{"containerPort": 81}]})
        ));
        assert!(!is_covered(
            &fields,
            json!({"ports": [{"containerPort": 80, "protocol": "UDP"}]})
        ));
    }

    #[test]
    fn items_of_sets_are_owned_by_their_values() {
        let fields = json!({"f:finalizers": {"v:\"a\"": {}}});
        assert!(is_covered(&fields, json!({"finalizers": ["a"]})));
        assert!(!is_covered(&fields, json!({"finalizers": ["a", "b"]})));
    }

    #[test]
    fn identifying_metadata_have_no_managers() {
        let metadata =
            json!({"name": "x", "namespace": "y", "labels": {}, "annotations": {"a": "b"}});
        let fields = json!({"f:metadata": {"f:annotations": {"f:a": {}}}});
        let fields = fields.as_object().unwrap();
        assert!(covers(
            fields,
            &json!({"apiVersion": "v1", "kind": "K", "metadata": metadata})
        ));
        assert!(!covers(
            fields,
            &json!({"metadata": {"labels": {"a": "b"}}})
        ));
    }
}
