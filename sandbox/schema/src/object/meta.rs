//! Accessors for the metadata of JSON objects.

use serde_json::{Map, Value};

pub fn text<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object
        .get("metadata")?
        .get(field)?
        .as_str()
        .filter(|text| !text.is_empty())
}

pub fn name(object: &Value) -> &str {
    text(object, "name").unwrap_or_default()
}

pub fn namespace(object: &Value) -> Option<&str> {
    text(object, "namespace")
}

pub fn uid(object: &Value) -> &str {
    text(object, "uid").unwrap_or_default()
}

pub fn labels(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("labels")
}

pub fn generation(object: &Value) -> i64 {
    object
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// Returns `true` if the object has a deletion timestamp.
pub fn is_terminating(object: &Value) -> bool {
    text(object, "deletionTimestamp").is_some()
}

pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    finalizers(object).any(|present| present == finalizer)
}

/// Adds a finalizer unless it exists.
pub fn add_finalizer(object: &mut Value, finalizer: &str) {
    if has_finalizer(object, finalizer) {
        return;
    }
    let list = metadata(object)
        .entry("finalizers")
        .or_insert_with(|| Value::Array(Vec::new()));
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    if let Some(list) = list.as_array_mut() {
        list.push(Value::String(finalizer.to_owned()));
    }
}

/// Removes a finalizer, and the list with its last entry.
pub fn remove_finalizer(object: &mut Value, finalizer: &str) {
    let metadata = metadata(object);
    if let Some(list) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
        list.retain(|entry| entry.as_str() != Some(finalizer));
        if list.is_empty() {
            metadata.remove("finalizers");
        }
    }
}

/// Returns the metadata for writing, created if missing.
pub fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    entry(object, "metadata")
}

/// Returns a field that is an object, created if missing or of another type.
pub fn entry<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(map) = object else {
        unreachable!("it has just been made an object")
    };
    let value = map
        .entry(field)
        .or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it has just been made an object"),
    }
}

/// Sets a string in the metadata.
pub fn set(object: &mut Value, field: &str, text: impl Into<String>) {
    metadata(object).insert(field.to_owned(), Value::String(text.into()));
}

/// Copies a field of the metadata from another version of the object, or removes it if absent there.
pub fn carry_over(object: &mut Value, from: &Value, field: &str) {
    let value = from
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .cloned();
    let metadata = metadata(object);
    match value {
        Some(value) => metadata.insert(field.to_owned(), value),
        None => metadata.remove(field),
    };
}

/// One entry of `ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub blocks_owner_deletion: bool,
}

impl OwnerReference {
    /// Returns the group of the owner.
    pub fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// Returns the version of the owner's group.
    pub fn version(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or(&*self.api_version, |(_, version)| version)
    }
}

pub fn owner_references(object: &Value) -> Vec<OwnerReference> {
    let text = |reference: &Value, field: &str| -> String {
        reference
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|reference| OwnerReference {
            api_version: text(reference, "apiVersion"),
            kind: text(reference, "kind"),
            name: text(reference, "name"),
            uid: text(reference, "uid"),
            blocks_owner_deletion: reference
                .get("blockOwnerDeletion")
                .and_then(Value::as_bool)
                .unwrap_or_default(),
        })
        .collect()
}

/// Removes references to owners by uid, and the list with its last entry.
pub fn remove_owners(object: &mut Value, uids: &[String]) {
    let metadata = metadata(object);
    if let Some(list) = metadata
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut)
    {
        list.retain(|reference| {
            let uid = reference
                .get("uid")
                .and_then(Value::as_str)
                .unwrap_or_default();
            !uids.iter().any(|removed| removed == uid)
        });
        if list.is_empty() {
            metadata.remove("ownerReferences");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_finalizer_list_is_removed() {
        let mut object = json!({"metadata": {"name": "x"}});
        add_finalizer(&mut object, "a/b");
        add_finalizer(&mut object, "a/b");
        assert_eq!(finalizers(&object).collect::<Vec<_>>(), ["a/b"]);
        remove_finalizer(&mut object, "a/b");
        assert_eq!(object, json!({"metadata": {"name": "x"}}));
    }

    #[test]
    fn malformed_metadata_never_panics() {
        let mut object =
            json!({"metadata": {"finalizers": "x", "ownerReferences": [1, {"uid": 2}]}});
        assert_eq!(finalizers(&object).count(), 0);
        assert_eq!(owner_references(&object).len(), 2);
        add_finalizer(&mut object, "a");
        assert!(has_finalizer(&object, "a"));
    }
}
