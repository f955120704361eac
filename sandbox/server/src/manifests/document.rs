//! One object of a manifest, with the checks that need no server.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Error;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    /// The origin, for messages: "crd.yaml, document 2".
    pub(super) place: String,
    pub(super) api_version: String,
    pub(super) kind: String,
    /// Absent for cluster-scoped objects, and for the default namespace.
    pub(super) namespace: Option<String>,
    /// Absent if the server generates it from `generateName`.
    pub(super) name: Option<String>,
    /// The uid in the manifest, for owner references. The server assigns another one.
    pub(super) uid: Option<String>,
    pub(super) value: Value,
}

impl Document {
    /// Accepts a parsed document that has the form of a Kubernetes object.
    pub(super) fn new(place: String, mut value: Value) -> Result<Self, Error> {
        let bad = |cause: &str| {
            Err(Error::new(format!("{place} is not a Kubernetes object"))
                .because(cause)
                .advise("an object requires apiVersion, kind and metadata.name"))
        };
        let text = |value: &Value, pointer: &str| {
            value
                .pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        if !value.is_object() {
            return bad("it is not a mapping of fields to values");
        }
        let (Some(api_version), Some(kind)) = (text(&value, "/apiVersion"), text(&value, "/kind"))
        else {
            return bad("apiVersion or kind is missing or not a string");
        };
        if api_version.is_empty() || kind.is_empty() {
            return bad("apiVersion or kind is empty");
        }
        let name = text(&value, "/metadata/name").filter(|name| !name.is_empty());
        if name.is_none() && text(&value, "/metadata/generateName").is_none() {
            return bad("metadata.name is missing or not a string");
        }
        let uid = text(&value, "/metadata/uid").filter(|uid| !uid.is_empty());
        let namespace = text(&value, "/metadata/namespace").filter(|name| !name.is_empty());
        // Objects read from another server contain its identifiers, which a server rejects in new
        // objects.
        if let Some(metadata) = value
            .pointer_mut("/metadata")
            .and_then(Value::as_object_mut)
        {
            metadata.remove("resourceVersion");
            metadata.remove("uid");
        }
        Ok(Self {
            place,
            api_version,
            kind,
            namespace,
            name,
            uid,
            value,
        })
    }

    /// Returns the uids of its owners.
    pub(super) fn owners(&self) -> impl Iterator<Item = &str> {
        let references = self.value.pointer("/metadata/ownerReferences");
        references
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|reference| reference.get("uid")?.as_str())
    }

    /// Returns the API group; empty for the core one.
    pub(super) fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }
}

/// Rejects objects that occur twice: the second one would replace the first.
pub(super) fn reject_duplicates(documents: &[Document]) -> Result<(), Error> {
    let mut seen = BTreeMap::new();
    for document in documents.iter().filter(|document| document.name.is_some()) {
        let Document {
            kind, name, place, ..
        } = document;
        let namespace = document.namespace.as_deref().unwrap_or("default");
        let identity = (document.group(), kind, namespace, name);
        if let Some(first) = seen.insert(identity, place) {
            let name = name.as_deref().unwrap_or_default();
            return Err(Error::new(format!("duplicate object: {kind} {name}"))
                .because(format!("{first}\n{place}"))
                .advise("remove one of them"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(value: Value) -> Result<Document, Error> {
        Document::new("a.yaml, document 1".to_owned(), value)
    }

    #[test]
    fn object_is_parsed_into_its_parts() {
        let document = document(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "5"},
        }))
        .unwrap();
        assert_eq!(document.group(), "apps");
        assert_eq!(document.name.as_deref(), Some("web"));
        assert_eq!(document.uid.as_deref(), Some("u"));
        assert_eq!(document.namespace.as_deref(), Some("shop"));
        assert_eq!(
            document.value["metadata"],
            json!({"name": "web", "namespace": "shop"})
        );
    }

    #[test]
    fn non_objects_are_rejected_with_their_origin() {
        for value in [
            json!(null),
            json!("text"),
            json!([]),
            json!({}),
            json!({"apiVersion": "v1"}),
            json!({"apiVersion": "v1", "kind": 5, "metadata": {"name": "x"}}),
            json!({"apiVersion": "", "kind": "Pod", "metadata": {"name": "x"}}),
            json!({"apiVersion": "v1", "kind": "Pod"}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": []}),
        ] {
            let error = document(value.clone()).expect_err(&value.to_string());
            assert!(
                error.what().starts_with("a.yaml, document 1 is not"),
                "{error:?}"
            );
        }
    }

    #[test]
    fn generate_name_is_sufficient() {
        let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}});
        assert_eq!(document(value).unwrap().name, None);
    }

    #[test]
    fn duplicates_are_rejected_across_versions_and_the_default_namespace() {
        let object = |version: &str, namespace: Option<&str>| {
            document(json!({"apiVersion": version, "kind": "Job",
                            "metadata": {"name": "x", "namespace": namespace}}))
            .unwrap()
        };
        let first = object("batch/v1", None);
        assert!(reject_duplicates(&[first.clone(), object("batch/v2", Some("default"))]).is_err());
        assert!(reject_duplicates(&[first.clone(), object("batch/v1", Some("other"))]).is_ok());
        assert!(reject_duplicates(&[first, object("other/v1", None)]).is_ok());
    }
}
