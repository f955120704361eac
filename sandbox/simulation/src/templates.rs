//! Creation of pods from templates.

use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::fields::owner_reference;

/// Letters and digits without vowels, as in hashes of a real server.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns a short hash of a template for names and labels (32 bits, FNV-1a).
pub(super) fn hash(template: &Value) -> String {
    // Members are sorted, so that equal templates have equal hashes.
    let mut state: u32 = 0x811c_9dc5;
    for byte in template.to_string().bytes() {
        state = (state ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    let encoded = state.to_string().into_bytes().into_iter().map(|digit| {
        let at = usize::from(digit) % ALPHABET.len();
        char::from(ALPHABET.get(at).copied().unwrap_or(b'x'))
    });
    encoded.collect()
}

/// Returns the pod of a template, controlled by `owner` and in its namespace, with a generated name.
pub(super) fn pod(owner: &Value, template: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["labels", "annotations", "finalizers"] {
        let given = template.pointer(&format!("/metadata/{field}"));
        if let Some(value) = given.filter(|value| !value.is_null()) {
            metadata[field] = value.clone();
        }
    }
    metadata["generateName"] = json!(format!("{}-", meta::name(owner)));
    metadata["namespace"] = json!(meta::namespace(owner));
    metadata["ownerReferences"] = json!([owner_reference(owner)]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template.get("spec").cloned().unwrap_or_default(),
    })
}

/// Sets a label of an object or template.
pub(super) fn set_label(object: &mut Value, name: &str, value: &str) {
    set_entry(object, "labels", name, value);
}

/// Sets an annotation of an object or template.
pub(super) fn set_annotation(object: &mut Value, name: &str, value: &str) {
    set_entry(object, "annotations", name, value);
}

fn set_entry(object: &mut Value, field: &str, name: &str, value: &str) {
    let entries = meta::metadata(object)
        .entry(field)
        .or_insert_with(|| json!({}));
    if let Some(entries) = entries.as_object_mut() {
        entries.insert(name.to_owned(), json!(value));
    }
}

/// Returns a label of an object, or an empty string.
pub(super) fn label<'a>(object: &'a Value, name: &str) -> &'a str {
    let label = meta::labels(object).and_then(|labels| labels.get(name));
    label.and_then(Value::as_str).unwrap_or_default()
}

/// Returns an annotation of an object, or an empty string.
pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    let annotations = object.pointer("/metadata/annotations");
    let annotation = annotations.and_then(|annotations| annotations.get(name));
    annotation.and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_depends_only_on_the_content() {
        let one = json!({ "spec": { "a": 1, "b": 2 } });
        let same: Value = serde_json::from_str(r#"{"spec":{"b":2,"a":1}}"#).unwrap();
        assert_eq!(hash(&one), hash(&same));
        assert_ne!(hash(&one), hash(&json!({ "spec": { "a": 1, "b": 3 } })));
        assert!(hash(&one).bytes().all(|byte| ALPHABET.contains(&byte)));
    }

    #[test]
    fn pods_are_controlled_by_their_owner() {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": { "name": "web", "namespace": "shop", "uid": "u" },
        });
        let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "x": 1 } });
        let pod = pod(&owner, &template);
        assert_eq!(pod["metadata"]["generateName"], "web-");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], true);
        assert_eq!(label(&pod, "app"), "web");
        assert_eq!(pod["spec"]["x"], 1);
    }
}
