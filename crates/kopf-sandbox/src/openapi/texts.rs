//! Descriptions of built-in schemas and operations.
//!
//! Recorded documents have none, because most schemas are part of several documents: each text is
//! embedded once, 0.7 MB in total, and added to a document when a client requests it.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Fingerprint;

/// Made by `tests/control-plane/texts.py`; the README of the folder documents the format.
static TEXTS: &str = include_str!("../../data/texts.json");

/// Only the outer level is parsed: a document needs a part of the trees.
#[derive(Deserialize)]
struct Descriptions<'a> {
    #[serde(borrow)]
    schemas: HashMap<String, &'a RawValue>,
    #[serde(borrow)]
    paths: HashMap<String, &'a RawValue>,
    texts: Vec<String>,
}

/// Returns the fingerprint of all descriptions.
pub(super) fn fingerprint() -> String {
    Fingerprint::of(TEXTS)
}

/// Adds the descriptions to an OpenAPI v3 document of a built-in group version.
pub(super) fn describe(document: &mut Value) {
    let Ok(descriptions) = serde_json::from_str::<Descriptions<'_>>(TEXTS) else {
        return; // part of the build, and covered by a test
    };
    for (pointer, trees) in [
        ("/components/schemas", &descriptions.schemas),
        ("/paths", &descriptions.paths),
    ] {
        let members = document
            .pointer_mut(pointer)
            .and_then(Value::as_object_mut)
            .into_iter()
            .flatten();
        for (name, member) in members {
            let tree = trees
                .get(name)
                .and_then(|raw| serde_json::from_str(raw.get()).ok());
            if let Some(tree) = tree {
                add(member, &tree, &descriptions.texts);
            }
        }
    }
}

/// Adds the descriptions of a tree to a part of a document. A tree is as deep as its document.
fn add(part: &mut Value, tree: &Value, texts: &[String]) {
    let Value::Object(members) = tree else {
        set_description(part, tree, texts);
        return;
    };
    for (name, below) in members {
        match part {
            _ if name.is_empty() => set_description(part, below, texts),
            Value::Object(fields) => {
                if let Some(field) = fields.get_mut(name) {
                    add(field, below, texts);
                }
            }
            Value::Array(items) => {
                let position: Option<usize> = name.parse().ok();
                if let Some(item) = position.and_then(|position| items.get_mut(position)) {
                    add(item, below, texts);
                }
            }
            _ => {}
        }
    }
}

fn set_description(part: &mut Value, position: &Value, texts: &[String]) {
    let text = position
        .as_u64()
        .and_then(|position| texts.get(usize::try_from(position).ok()?));
    if let (Value::Object(fields), Some(text)) = (part, text) {
        fields.insert("description".to_owned(), Value::String(text.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorded;
    use super::*;

    #[test]
    fn descriptions_are_added_at_all_levels() {
        let texts = ["outer", "inner", "second"].map(str::to_owned);
        let mut part = serde_json::json!({
            "properties": { "description": { "type": "string" }, "plain": {} },
            "parameters": [{}, {}],
        });
        let tree = serde_json::json!({
            "": 0, "properties": { "description": 1, "absent": 1 }, "parameters": { "1": 2, "7": 2 },
        });
        add(&mut part, &tree, &texts);
        assert_eq!(part["description"], "outer");
        assert_eq!(part["properties"]["description"]["description"], "inner");
        assert_eq!(part["properties"]["plain"], serde_json::json!({}));
        assert_eq!(part["parameters"][1]["description"], "second");
        assert_eq!(part["parameters"][0], serde_json::json!({}));
    }

    #[test]
    fn every_recorded_kind_and_operation_is_described() {
        for document in recorded::documents() {
            let described: Value = serde_json::from_slice(document.described()).unwrap();
            for (name, schema) in described["components"]["schemas"].as_object().unwrap() {
                let has_kind = schema.get("x-kubernetes-group-version-kind").is_some();
                assert!(
                    !has_kind || schema["description"].is_string(),
                    "{name} in {} has no description",
                    document.path
                );
            }
            for (path, item) in described["paths"].as_object().unwrap() {
                for method in ["get", "put", "post", "patch", "delete"] {
                    let Some(operation) = item.get(method) else {
                        continue;
                    };
                    assert!(operation["description"].is_string(), "{method} {path}");
                }
            }
        }
    }

    #[test]
    fn fields_of_pods_are_described() {
        let document = recorded::document("api/v1").unwrap();
        let document: Value = serde_json::from_slice(document.described()).unwrap();
        let pod = &document["components"]["schemas"]["io.k8s.api.core.v1.Pod"];
        let text = pod["properties"]["spec"]["description"].as_str().unwrap();
        assert!(text.starts_with("Specification of the desired behavior of the pod"));
    }
}
