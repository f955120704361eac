//! References to objects.

use serde_json::Value;

/// A reference to an object: the object itself, or a string such as `"kopfexamples/obj"`.
///
/// ```
/// use kopf_testing::ObjectRef;
///
/// let by_name = ObjectRef::from("kopfexamples/obj");
/// let elsewhere = ObjectRef::from("deployments.apps/shop/obj");
/// # let _ = (by_name, elsewhere);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    pub(super) kind: KindRef,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// A reference to a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KindRef {
    /// The API version and kind of an object.
    Kind { api_version: String, kind: String },
    /// A plural, singular or short name, or the kind; with or without a group.
    Named { name: String, group: Option<String> },
}

impl KindRef {
    pub(super) fn named(text: &str) -> Self {
        let (name, group) = match text.split_once('.') {
            Some((name, group)) => (name, Some(group.to_owned())),
            None => (text, None),
        };
        Self::Named {
            name: name.to_lowercase(),
            group,
        }
    }
}

impl From<&Value> for ObjectRef {
    /// Panics if the value is not a Kubernetes object.
    #[track_caller]
    fn from(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let metadata = &object["metadata"];
        let (Some(api_version), Some(kind), Some(name)) = (
            text(&object["apiVersion"]),
            text(&object["kind"]),
            text(&metadata["name"]),
        ) else {
            panic!("not an object: apiVersion, kind or name is missing: {object}");
        };
        Self {
            kind: KindRef::Kind { api_version, kind },
            namespace: text(&metadata["namespace"]),
            name,
        }
    }
}

impl From<&str> for ObjectRef {
    /// Panics unless the string is `kind/name` or `kind/namespace/name`.
    #[track_caller]
    fn from(text: &str) -> Self {
        let steps: Vec<&str> = text.split('/').collect();
        let (kind, namespace, name) = match steps.as_slice() {
            [kind, name] => (kind, None, name),
            [kind, namespace, name] => (kind, Some((*namespace).to_owned()), name),
            _ => panic!("{text:?} is neither kind/name nor kind/namespace/name"),
        };
        Self {
            kind: KindRef::named(kind),
            namespace,
            name: (*name).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_refer_to_objects() {
        let object = ObjectRef::from("deployments.apps/shop/web");
        assert_eq!(
            object.kind,
            KindRef::Named {
                name: "deployments".into(),
                group: Some("apps".into())
            }
        );
        assert_eq!(object.namespace.as_deref(), Some("shop"));
        assert_eq!(object.name, "web");
        assert_eq!(ObjectRef::from("pods/web").namespace, None);
    }

    #[test]
    #[should_panic(expected = "not an object")]
    fn values_without_names_are_rejected() {
        let _ = ObjectRef::from(&json!({"apiVersion": "v1", "kind": "Pod"}));
    }
}
