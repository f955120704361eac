//! Defaults that the server sets.

use serde_json::{Value, json};

/// Sets names, the conversion strategy and flags of versions, and drops nulls, which are equal to
/// absent fields everywhere in a CRD.
pub fn default(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec") else {
        return;
    };
    drop_nulls(spec);
    let Some(spec) = spec.as_object_mut() else {
        return;
    };
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    for version in versions
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        for key in ["served", "storage"] {
            version.entry(key).or_insert_with(|| false.into());
        }
    }
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let absent = |key: &str| {
            names
                .get(key)
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
        };
        let (singular, list_kind) = (absent("singular"), absent("listKind"));
        if !kind.is_empty() && singular {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if !kind.is_empty() && list_kind {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let service = spec
        .get_mut("conversion")
        .and_then(|conversion| conversion.pointer_mut("/webhook/clientConfig/service"))
        .and_then(Value::as_object_mut);
    if let Some(service) = service
        && service.get("port").is_none_or(Value::is_null)
    {
        service.insert("port".to_owned(), 443.into());
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            for (key, value) in map {
                // These are values of future objects, where null can be significant.
                if !matches!(key.as_str(), "default" | "example" | "enum") {
                    drop_nulls(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Sets the status of a new CRD. The status sent by the client is dropped.
pub fn prepare_create(crd: &mut Value) {
    let stored: Vec<Value> = storage_version(crd).into_iter().map(Value::from).collect();
    let status = json!({
        "acceptedNames": {"kind": "", "plural": ""},
        "conditions": [],
        "storedVersions": stored,
    });
    if let Some(crd) = crd.as_object_mut() {
        crd.insert("status".to_owned(), status);
    }
}

/// Keeps the status of the old CRD, and adds a new storage version to it.
pub fn prepare_update(crd: &mut Value, old: &Value) {
    let storage = storage_version(crd);
    let Some(crd) = crd.as_object_mut() else {
        return;
    };
    let mut status = old.get("status").cloned().unwrap_or_else(|| json!({}));
    if let (Some(storage), Some(status)) = (storage, status.as_object_mut()) {
        let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
        if stored.is_null() {
            *stored = json!([]);
        }
        if let Value::Array(stored) = stored
            && !stored.iter().any(|version| *version == storage)
        {
            stored.push(storage.into());
        }
    }
    crd.insert("status".to_owned(), status);
}

fn storage_version(crd: &Value) -> Option<String> {
    let versions = crd.pointer("/spec/versions")?.as_array()?;
    let storage = versions
        .iter()
        .find(|version| version.get("storage") == Some(&true.into()))?;
    storage.get("name")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_conversion_are_defaulted() {
        let mut crd = json!({"spec": {"names": {"kind": "KopfExample", "plural": "x"}}});
        default(&mut crd);
        assert_eq!(
            crd,
            json!({"spec": {
                "names": {"kind": "KopfExample", "plural": "x", "singular": "kopfexample", "listKind": "KopfExampleList"},
                "conversion": {"strategy": "None"},
            }})
        );
        let before = crd.clone();
        default(&mut crd);
        assert_eq!(crd, before);
    }

    #[test]
    fn storage_versions_are_recorded() {
        let mut old = json!({"spec": {"versions": [{"name": "v1", "storage": true}]}});
        prepare_create(&mut old);
        assert_eq!(old["status"]["storedVersions"], json!(["v1"]));
        let mut new = json!({
            "spec": {"versions": [{"name": "v1"}, {"name": "v2", "storage": true}]},
            "status": {"storedVersions": ["v9"]},
        });
        prepare_update(&mut new, &old);
        assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    }
}
