//! Owners of loaded objects. The server gives every object a new uid, and removes those whose
//! owners do not exist by their uid: references have to follow.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Document;

/// The uids of manifests, and what the server has made of them.
pub(super) struct Owners {
    expected: BTreeSet<String>,
    renewed: BTreeMap<String, String>,
}

/// What came of the references of one object.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Renewed {
    /// The references with the uids of the server, as far as the owners are there.
    pub(super) references: Vec<Value>,
    /// An owner comes later: circles and the order of kinds make that possible.
    pub(super) incomplete: bool,
    /// Owners that are not loaded, by kind and name.
    pub(super) dropped: Vec<String>,
}

impl Owners {
    pub(super) fn of(documents: &[Document]) -> Self {
        Self {
            expected: documents.iter().filter_map(|d| d.uid.clone()).collect(),
            renewed: BTreeMap::new(),
        }
    }

    /// Remembers what the server has created for a document.
    pub(super) fn learn(&mut self, document: &Document, created: &Value) {
        let new = created.pointer("/metadata/uid").and_then(Value::as_str);
        if let (Some(old), Some(new)) = (&document.uid, new) {
            self.renewed.insert(old.clone(), new.to_owned());
        }
    }

    /// The references of an object as the server can take them now; nothing if it has none.
    pub(super) fn renew(&self, value: &Value) -> Option<Renewed> {
        let references = value.pointer("/metadata/ownerReferences")?.as_array()?;
        let mut result = Renewed::default();
        for reference in references {
            let Some(old) = reference.get("uid").and_then(Value::as_str) else {
                // The server says best what is wrong with it.
                result.references.push(reference.clone());
                continue;
            };
            if let Some(new) = self.renewed.get(old) {
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

/// The object with other references.
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
    fn references_follow_wait_or_are_dropped() {
        let documents = [
            document("a", &[]),
            document("b", &[]),
            document("c", &["old-a", "old-b", "elsewhere"]),
        ];
        let mut owners = Owners::of(&documents);
        owners.learn(&documents[0], &json!({"metadata": {"uid": "new-a"}}));
        let renewed = owners.renew(&documents[2].value).unwrap();
        assert_eq!(
            renewed.references,
            [json!({"kind": "Thing", "name": "of-old-a", "uid": "new-a"})]
        );
        assert!(renewed.incomplete);
        assert_eq!(renewed.dropped, ["Thing of-elsewhere"]);

        owners.learn(&documents[1], &json!({"metadata": {"uid": "new-b"}}));
        let renewed = owners.renew(&documents[2].value).unwrap();
        assert_eq!(renewed.references.len(), 2);
        assert!(!renewed.incomplete);
    }

    #[test]
    fn an_object_without_owners_left_has_no_references() {
        let document = document("a", &["elsewhere"]);
        let value = with_references(&document.value, Vec::new());
        assert_eq!(value["metadata"], json!({"name": "a"}));
    }
}
