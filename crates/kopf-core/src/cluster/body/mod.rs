//! The body of a Kubernetes object: a shared, immutable JSON document.
//!
//! Filters, essences, storages and handlers read objects as
//! [`Body`]. Cloning increments a reference count. Bytes from the server are parsed by
//! [`Body::parse`], which drops `metadata.managedFields`: they are often the larger half of an
//! object, and only frontends that [request them](ManagedFields::Keep) need them.

mod decoding;

use std::fmt;
use std::ops::Index;
use std::sync::{Arc, LazyLock};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::key_order::{InOrder, KeyOrder};
use crate::reference::ObjectReference;

static NULL: Value = Value::Null;
static EMPTY_MAP: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
static EMPTY_OBJECT: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));

/// The error of parsing a body.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not one JSON object.
    #[error("an object of the cluster cannot be read as a JSON object")]
    Unreadable(#[source] serde_json::Error),
}

/// The treatment of `metadata.managedFields` of objects from the wire. Essences never contain them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ManagedFields {
    /// They are dropped before the object is stored or parsed, which saves up to half of the memory.
    #[default]
    Drop,
    /// They are kept, and so is the order of all keys, as in the original.
    Keep,
}

/// A whole object: `apiVersion`, `kind`, `metadata`, `spec`, `status` and the rest.
///
/// ```
/// use kopf_core::body::Body;
///
/// let body = Body::parse(br#"{"kind": "Thing", "metadata": {"name": "obj"}}"#)?;
/// assert_eq!(body.name(), Some("obj"));
/// assert_eq!(body.spec()["field"], serde_json::Value::Null);
/// # Ok::<_, kopf_core::body::Error>(())
/// ```
#[derive(Clone)]
pub struct Body {
    value: Arc<Value>,
    order: Option<Arc<KeyOrder>>,
}

impl Body {
    /// Wraps a value without changing it.
    pub fn new(value: Value) -> Self {
        Self::from(Arc::new(value))
    }

    /// Sets the order of keys, for frontends that show it to users.
    #[must_use]
    pub fn with_order(self, order: Option<Arc<KeyOrder>>) -> Self {
        Self { order, ..self }
    }

    /// Returns the order of keys as sent by the server. `None` if all keys are sorted, and if the
    /// order was not [requested](ManagedFields::Keep).
    pub fn order(&self) -> Option<&Arc<KeyOrder>> {
        self.order.as_ref()
    }

    /// Parses one JSON object, without its `metadata.managedFields`.
    ///
    /// Parsing is [lenient](crate::lenient): values that are nested too deeply become null.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Self::parse_counting(bytes).map(|(body, _)| body)
    }

    /// Parses one JSON object. Returns the number of values that became null because they are
    /// nested too deeply.
    pub fn parse_counting(bytes: &[u8]) -> Result<(Self, usize), Error> {
        Self::parse_with(bytes, ManagedFields::Drop)
    }

    /// Parses one JSON object, with or without its `metadata.managedFields`. Returns the number of
    /// values that became null because they are nested too deeply.
    pub fn parse_with(bytes: &[u8], managed: ManagedFields) -> Result<(Self, usize), Error> {
        let strict = match managed {
            ManagedFields::Drop => decoding::object(bytes).map(|value| (value, None)),
            ManagedFields::Keep => decoding::whole_object(bytes),
        };
        match strict {
            Ok((value, order)) => Ok((Self::new(value).with_order(order), 0)),
            Err(error) => {
                let lenient = decoding::lenient_object(bytes, managed);
                let (value, cut) = lenient.ok_or(Error::Unreadable(error))?;
                Ok((Self::new(value), cut))
            }
        }
    }

    /// Parses only a part of one JSON object: the selected top-level fields, and, unless `metadata`
    /// is selected, the resource version, the generation, labels, annotations, finalizers, owner
    /// references and the deletion timestamp.
    ///
    /// ```
    /// use kopf_core::body::Body;
    ///
    /// let bytes = br#"{"metadata": {"name": "a", "resourceVersion": "5"}, "spec": {}, "status": {"x": 1}}"#;
    /// let body = Body::parse_part(bytes, &|key| key == "status")?;
    /// assert_eq!(body.resource_version(), Some("5"));
    /// assert_eq!(body.status()["x"], 1);
    /// assert_eq!((body.name(), body.get("spec").is_null()), (None, true));
    /// # Ok::<_, kopf_core::body::Error>(())
    /// ```
    pub fn parse_part(bytes: &[u8], chosen: &dyn Fn(&str) -> bool) -> Result<Self, Error> {
        let value = decoding::part(bytes, chosen).or_else(|error| {
            let whole = decoding::lenient_object(bytes, ManagedFields::Drop);
            let (mut whole, _) = whole.ok_or(Error::Unreadable(error))?;
            if let Some(fields) = whole.as_object_mut() {
                fields.retain(|key, _| key == "metadata" || chosen(key));
            }
            Ok(whole)
        })?;
        Ok(Self::new(value))
    }

    /// Returns the whole document.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns a top-level field; null if absent.
    pub fn get(&self, key: &str) -> &Value {
        self.value.get(key).unwrap_or(&NULL)
    }

    /// Returns `spec`, or an empty object.
    pub fn spec(&self) -> &Value {
        self.stanza("spec")
    }

    /// Returns `status`, or an empty object.
    pub fn status(&self) -> &Value {
        self.stanza("status")
    }

    /// Returns `metadata`, or an empty map.
    pub fn metadata(&self) -> &Map<String, Value> {
        self.get("metadata").as_object().unwrap_or(&EMPTY_MAP)
    }

    /// Returns `metadata.labels`, or an empty map.
    pub fn labels(&self) -> &Map<String, Value> {
        self.metadata()
            .get("labels")
            .and_then(Value::as_object)
            .unwrap_or(&EMPTY_MAP)
    }

    /// Returns `metadata.annotations`, or an empty map.
    pub fn annotations(&self) -> &Map<String, Value> {
        self.metadata()
            .get("annotations")
            .and_then(Value::as_object)
            .unwrap_or(&EMPTY_MAP)
    }

    /// Returns one label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().get(key)?.as_str()
    }

    /// Returns one annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations().get(key)?.as_str()
    }

    /// Returns `metadata.uid`.
    pub fn uid(&self) -> Option<&str> {
        self.meta("uid")
    }

    /// Returns `metadata.name`.
    pub fn name(&self) -> Option<&str> {
        self.meta("name")
    }

    /// Returns `metadata.namespace`.
    pub fn namespace(&self) -> Option<&str> {
        self.meta("namespace")
    }

    /// Returns `metadata.resourceVersion`.
    pub fn resource_version(&self) -> Option<&str> {
        self.meta("resourceVersion")
    }

    /// Returns `metadata.creationTimestamp` as a string.
    pub fn creation_timestamp(&self) -> Option<&str> {
        self.meta("creationTimestamp")
    }

    /// Returns `metadata.deletionTimestamp` as a string.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.meta("deletionTimestamp")
    }

    /// Returns `kind`.
    pub fn kind(&self) -> Option<&str> {
        self.get("kind").as_str()
    }

    /// Returns `apiVersion`.
    pub fn api_version(&self) -> Option<&str> {
        self.get("apiVersion").as_str()
    }

    /// Returns the strings of `metadata.finalizers`.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.list("finalizers").iter().filter_map(Value::as_str)
    }

    /// Returns `metadata.ownerReferences`.
    pub fn owner_references(&self) -> impl Iterator<Item = &Value> {
        self.list("ownerReferences").iter()
    }

    /// Returns `true` if the deletion was requested: `metadata.deletionTimestamp` is present and
    /// not null.
    pub fn is_deleting(&self) -> bool {
        self.metadata()
            .get("deletionTimestamp")
            .is_some_and(|moment| !moment.is_null())
    }

    /// Returns the reference of this object.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: self.api_version().map(Arc::from),
            kind: self.kind().map(Arc::from),
            name: self.name().map(Arc::from),
            uid: self.uid().map(Arc::from),
            namespace: self.namespace().map(Arc::from),
        }
    }

    fn stanza(&self, key: &str) -> &Value {
        Some(self.get(key))
            .filter(|value| value.is_object())
            .unwrap_or(&EMPTY_OBJECT)
    }

    fn meta(&self, key: &str) -> Option<&str> {
        self.metadata().get(key)?.as_str()
    }

    fn list(&self, key: &str) -> &[Value] {
        self.metadata()
            .get(key)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }
}

impl From<Value> for Body {
    fn from(value: Value) -> Self {
        Self::new(value)
    }
}

impl From<Arc<Value>> for Body {
    fn from(value: Arc<Value>) -> Self {
        Self { value, order: None }
    }
}

/// Compares the values: the order of keys has no meaning.
impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// With the keys in their order, if it is known.
impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        InOrder(&self.value, self.order.as_deref()).serialize(serializer)
    }
}

/// Indexes as in JSON values: null if absent.
///
/// ```
/// use kopf_core::body::Body;
///
/// let body = Body::parse(br#"{"spec": {"field": "value"}}"#)?;
/// assert_eq!(body["spec"]["field"], "value");
/// assert!(body["status"]["field"].is_null());
/// # Ok::<_, kopf_core::body::Error>(())
/// ```
impl<I: serde_json::value::Index> Index<I> for Body {
    type Output = Value;

    fn index(&self, index: I) -> &Value {
        self.value.get(index).unwrap_or(&NULL)
    }
}

/// Formats only the identity: bodies can contain secrets, and debug output is logged.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("kind", &self.kind().unwrap_or_default())
            .field("namespace", &self.namespace().unwrap_or_default())
            .field("name", &self.name().unwrap_or_default())
            .field(
                "resource_version",
                &self.resource_version().unwrap_or_default(),
            )
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn managed_fields_are_kept_on_request() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
        for spec in ["1", &deep] {
            let text =
                format!(r#"{{"metadata": {{"managedFields": [{{"f": 1}}]}}, "spec": {spec}}}"#);
            let (body, _) = Body::parse_with(text.as_bytes(), ManagedFields::Keep).unwrap();
            assert_eq!(
                body.metadata()["managedFields"],
                json!([{"f": 1}]),
                "{spec}"
            );
        }
        for text in ["[]", "1", "{", "{} {}"] {
            let parsed = Body::parse_with(text.as_bytes(), ManagedFields::Keep);
            assert!(parsed.is_err(), "{text}");
        }
    }

    #[test]
    fn managed_fields_are_dropped_when_parsing() {
        let value = json!({
            "kind": "Thing",
            "metadata": {"name": "obj", "managedFields": [{"fieldsV1": {"f:spec": {}}}]},
            "spec": {"metadata": {"managedFields": ["kept"]}},
        });
        let body = Body::parse(value.to_string().as_bytes()).unwrap();
        let expected = json!({
            "kind": "Thing",
            "metadata": {"name": "obj"},
            "spec": {"metadata": {"managedFields": ["kept"]}},
        });
        assert_eq!(*body.value(), expected);
        assert_eq!(*Body::new(value.clone()).value(), value);
    }

    #[test]
    fn lenient_json_is_accepted() {
        let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let text = format!(
            r#"{{"metadata": {{"name": "\ud800", "managedFields": [1]}}, "spec": {deep}, "text": ""}}"#
        );
        let (body, cut) = Body::parse_counting(text.as_bytes()).unwrap();
        assert_eq!((body.name(), cut), (Some("\u{fffd}"), 0));
        assert!(!body.metadata().contains_key("managedFields"));
        assert_eq!(body.spec(), &json!({}), "it is not an object");
        assert!(body.get("spec").is_array());
        let part = Body::parse_part(text.as_bytes(), &|key| key == "spec").unwrap();
        assert!(part.get("spec").is_array() && part.get("text").is_null());

        let deeper = "[".repeat(5_000) + &"]".repeat(5_000);
        let text = format!(r#"{{"metadata": {{"name": "a"}}, "spec": {deeper}}}"#);
        let (body, cut) = Body::parse_counting(text.as_bytes()).unwrap();
        assert_eq!((body.name(), cut), (Some("a"), 1));
    }

    #[test]
    fn views_of_a_usual_object() {
        let body = Body::new(json!({
            "apiVersion": "golden.example/v1", "kind": "Thing",
            "metadata": {
                "name": "obj", "namespace": "ns", "uid": "u-1", "resourceVersion": "7",
                "creationTimestamp": "2026-01-02T03:04:05Z",
                "labels": {"a": "b"}, "annotations": {"c": "d"},
                "finalizers": ["f1", "f2"], "ownerReferences": [{"kind": "Deployment"}],
            },
            "spec": {"field": 1}, "status": {"x": 2}, "data": {"k": "v"},
        }));
        assert_eq!(body.api_version(), Some("golden.example/v1"));
        assert_eq!(body.kind(), Some("Thing"));
        assert_eq!((body.name(), body.namespace()), (Some("obj"), Some("ns")));
        assert_eq!(
            (body.uid(), body.resource_version()),
            (Some("u-1"), Some("7"))
        );
        assert_eq!(body.creation_timestamp(), Some("2026-01-02T03:04:05Z"));
        assert_eq!(
            (body.label("a"), body.annotation("c")),
            (Some("b"), Some("d"))
        );
        assert_eq!((body.label("c"), body.annotation("a")), (None, None));
        assert_eq!(body.finalizers().collect::<Vec<_>>(), ["f1", "f2"]);
        assert_eq!(body.owner_references().count(), 1);
        assert_eq!(
            (&body.spec()["field"], &body.status()["x"]),
            (&json!(1), &json!(2))
        );
        assert_eq!(
            (body.get("data"), body.get("none")),
            (&json!({"k": "v"}), &Value::Null)
        );
        assert_eq!(body.reference().to_string(), "ns/obj");
        assert!(!body.is_deleting());
    }

    #[test]
    fn deletion_needs_a_timestamp_that_is_not_null() {
        let with = |moment: Value| Body::new(json!({"metadata": {"deletionTimestamp": moment}}));
        assert!(with(json!("2026-01-02T03:04:05Z")).is_deleting());
        assert!(!with(Value::Null).is_deleting());
    }

    #[test]
    fn malformed_objects_have_empty_views() {
        for garbage in [
            json!(null),
            json!([1]),
            json!({"metadata": "x", "spec": 1, "status": [], "kind": {}}),
            json!({"metadata": {"labels": 1, "annotations": [], "finalizers": {}, "name": 1,
                   "ownerReferences": "x"}}),
            json!({"metadata": {"labels": {"a": 1}, "annotations": {"a": {}}}}),
        ] {
            let body = Body::new(garbage);
            assert_eq!((body.spec(), body.status()), (&json!({}), &json!({})));
            assert_eq!((body.label("a"), body.annotation("a")), (None, None));
            assert_eq!((body.name(), body.kind()), (None, None));
            assert_eq!(
                body.finalizers().count() + body.owner_references().count(),
                0
            );
            assert!(!body.is_deleting());
        }
    }

    #[test]
    fn metadata_of_any_type_is_parsed() {
        for metadata in [
            json!(null),
            json!(true),
            json!(-1),
            json!(1),
            json!(1.5),
            json!("x"),
            json!([{"managedFields": 1}]),
            json!({}),
        ] {
            let value = json!({"metadata": metadata});
            let body = Body::parse(value.to_string().as_bytes()).unwrap();
            assert_eq!(*body.value(), value);
        }
    }

    #[test]
    fn only_one_whole_object_is_accepted() {
        for bad in [
            &b""[..],
            b"null",
            b"[]",
            b"1",
            b"{",
            b"{} {}",
            b"{\"a\":}",
            b"\xff",
            &b"{\"a\":".repeat(200),
        ] {
            assert!(Body::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn debug_shows_no_content() {
        let text = format!(
            "{:?}",
            Body::new(json!({"kind": "Secret", "data": {"k": "hidden"}}))
        );
        assert!(
            text.contains("Secret") && !text.contains("hidden"),
            "{text}"
        );
    }
}
