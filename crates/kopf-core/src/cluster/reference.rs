//! References of objects, for log records and k8s-events.
//!
//! Built from a [`Body`](crate::body::Body) once per cycle. It does not contain the object.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

/// The identity of an object, for logs and k8s-events.
///
/// Every part is optional, because a body can have any content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ObjectReference {
    /// `apiVersion`: `group/version`, or the version alone in the core group.
    pub api_version: Option<Arc<str>>,
    /// `kind`, as in manifests.
    pub kind: Option<Arc<str>>,
    /// `metadata.name`.
    pub name: Option<Arc<str>>,
    /// `metadata.uid`.
    pub uid: Option<Arc<str>>,
    /// `metadata.namespace`; `None` for cluster-scoped objects.
    pub namespace: Option<Arc<str>>,
}

impl ObjectReference {
    /// Returns the reference in the form of Kubernetes, e.g. as `involvedObject`, without absent or
    /// empty parts.
    pub fn to_value(&self) -> Value {
        let parts = [
            ("apiVersion", &self.api_version),
            ("kind", &self.kind),
            ("name", &self.name),
            ("uid", &self.uid),
            ("namespace", &self.namespace),
        ];
        let present = parts.into_iter().filter_map(|(key, part)| {
            let text = part.as_deref().filter(|text| !text.is_empty())?;
            Some((key.to_owned(), Value::from(text)))
        });
        Value::Object(present.collect::<Map<String, Value>>())
    }
}

impl fmt::Display for ObjectReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or_default();
        match self
            .namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty())
        {
            Some(namespace) => write!(f, "{namespace}/{name}"),
            None => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reference(namespace: Option<&str>) -> ObjectReference {
        ObjectReference {
            api_version: Some("golden.example/v1".into()),
            kind: Some("Thing".into()),
            name: Some("obj".into()),
            uid: Some("u-1".into()),
            namespace: namespace.map(Arc::from),
        }
    }

    #[test]
    fn display_is_namespace_and_name() {
        assert_eq!(reference(Some("ns")).to_string(), "ns/obj");
        assert_eq!(reference(None).to_string(), "obj");
        assert_eq!(reference(Some("")).to_string(), "obj");
        assert_eq!(ObjectReference::default().to_string(), "");
    }

    #[test]
    fn absent_and_empty_parts_are_omitted() {
        let expected = json!({
            "apiVersion": "golden.example/v1", "kind": "Thing", "name": "obj", "uid": "u-1",
        });
        assert_eq!(reference(None).to_value(), expected);
        assert_eq!(reference(Some("")).to_value(), expected);
        assert_eq!(reference(Some("ns")).to_value()["namespace"], "ns");
        assert_eq!(ObjectReference::default().to_value(), json!({}));
    }
}
