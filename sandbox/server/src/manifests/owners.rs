//! Owner references of loaded objects. The server assigns new uids and deletes objects whose owners
//! do not exist, so references must be translated.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Document;

/// A map from the uids of manifests to those of the server.
pub(super) struct Owners {
    expected: BTreeSet<String>,
    translated: BTreeMap<String, String>,
}

/// The translated references of one object.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Translated {
    /// The references with the uids of the server, for existing owners.
    pub(super) references: Vec<Value>,
    /// An owner is created later, because of a cycle or the order of kinds.
    pub(super) incomplete: bool,
    /// Kinds and names of owners that are not loaded.
    pub(super) dropped: Vec<String>,
}

impl Owners {
    pub(super) fn of(documents: &[Document]) -> Self {
        Self {
            expected: documents.iter().filter_map(|d| d.uid.clone()).collect(),
            translated: BTreeMap::new(),
        }
    }

    /// Records the object that the server created for a document.
    pub(super) fn learn(&mut self, document: &Document, created: &Value) {
        let new = created.pointer("/metadata/uid").and_then(Value::as_str);
        if let (Some(old), Some(new)) = (&document.uid, new) {
            self.translated.insert(old.clone(), new.to_owned());
        }
    }

    /// Returns the references of an object that are valid now, or `None` if it has none.
    pub(super) fn translate(&self, value: &Value) -> Option<Translated> {
        let references = value.pointer("/metadata/ownerReferences")?.as_array()?;
        let mut result = Translated::default();
        for reference in references {
            let Some(old) = reference.get("uid").and_then(Value::as_str) else {
                // Malformed references are left to the server's validation.
                result.references.push(reference.clone());
                continue;
            };
            if let Some(new) = self.translated.get(old) {
                let mut reference = reference.clone();
                if let Some(uid) = reference.get_mut("uid") {
                    *uid = Value::from(new.as_str());
                }
                result.references.push(reference);
            } else if self.expected.contains(old) {
                result.incomplete = true;
            } else {
                let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or("?");
                result
                    .dropped
                    .push(format!("{} {}", text("kind"), text("name")));
            }
        }
        Some(result)
    }
}

/// Returns the object with other references.
pub(super) fn with_references(value: &Value, references: Vec<Value>) -> Value {
    let mut value = value.clone();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        if references.is_empty() {
            metadata.remove("ownerReferences");
        } else {
            metadata.insert("ownerReferences".to_owned(), Value::Array(references));
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(name: &str, owners: &[&str]) -> Document {
        let references: Vec<_> = owners
            .iter()
            .map(|uid| json!({"kind": "Thing", "name": format!("of-{uid}"), "uid": uid}))
            .collect();
        let value = json!({"apiVersion": "v1", "kind": "Thing", "metadata":
            {"name": name, "uid": format!("old-{name}"), "ownerReferences": references}});
        Document::new(String::new(), value).unwrap()
    }

    #[test]
    fn references_are_translated_postponed_or_dropped() {
        let documents = [
            document("a", &[]),
            document("b", &[]),
            document("c", &["old-a", "old-b", "elsewhere"]),
        ];
        let mut owners = Owners::of(&documents);
        owners.learn(&documents[0], &json!({"metadata": {"uid": "new-a"}}));
        let translated = owners.translate(&documents[2].value).unwrap();
        assert_eq!(
            translated.references,
            [json!({"kind": "Thing", "name": "of-old-a", "uid": "new-a"})]
        );
        assert!(translated.incomplete);
        assert_eq!(translated.dropped, ["Thing of-elsewhere"]);

        owners.learn(&documents[1], &json!({"metadata": {"uid": "new-b"}}));
        let translated = owners.translate(&documents[2].value).unwrap();
        assert_eq!(translated.references.len(), 2);
        assert!(!translated.incomplete);
    }

    #[test]
    fn object_without_remaining_owners_has_no_references() {
        let document = document("a", &["elsewhere"]);
        let value = with_references(&document.value, Vec::new());
        assert_eq!(value["metadata"], json!({"name": "a"}));
    }
}
