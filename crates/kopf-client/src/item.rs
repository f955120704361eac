//! One object from the server: its bytes, and the keys for its queue.
//!
//! Objects are not decoded here. Most events of a busy cluster are superseded by newer versions
//! before they are handled.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use kopf_core::body::ManagedFields;
use kopf_core::cause::EventType;
use kopf_core::outline;
use serde::Deserialize;

use crate::error::Error;

/// An object with the type of its event.
#[derive(Clone, Debug)]
pub struct Item {
    /// The type of the event.
    pub event: EventType,
    /// The identity and the version of the object.
    pub key: Peek,
    /// The object as JSON, with its `apiVersion` and `kind`. The bytes are not shared with other
    /// objects.
    pub raw: Bytes,
}

/// The fields of an object that are read without decoding it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peek {
    /// `metadata.uid`.
    pub uid: Option<Box<str>>,
    /// `metadata.namespace`.
    pub namespace: Option<Box<str>>,
    /// `metadata.name`.
    pub name: Option<Box<str>>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<Box<str>>,
}

/// The outline of an object: all other fields are skipped.
pub(crate) struct Outline<'a> {
    api_version: Option<Cow<'a, str>>,
    kind: Option<Cow<'a, str>>,
    metadata: Metadata<'a>,
    managed_fields: Range<usize>,
}

/// The outline of an object with escaped strings.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Unusual<'a> {
    #[serde(borrow, default)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    metadata: Option<Metadata<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    resource_version: Option<Cow<'a, str>>,
}

/// The type of items of a list that do not contain it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kind {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

impl<'a> Outline<'a> {
    pub(crate) fn of(object: &'a [u8]) -> Result<Self, serde_json::Error> {
        if let Some(found) = outline::Outline::find(object) {
            return Ok(Self::from(found));
        }
        // serde would accept a list as the fields in their order.
        if object.trim_ascii_start().first() == Some(&b'[') {
            return Err(serde::de::Error::custom("a list instead of an object"));
        }
        let unusual: Unusual<'_> = serde_json::from_slice(object)?;
        Ok(Self {
            api_version: unusual.api_version,
            kind: unusual.kind,
            metadata: unusual.metadata.unwrap_or_default(),
            managed_fields: 0..0,
        })
    }

    pub(crate) fn resource_version(&self) -> Option<&str> {
        let version = self.metadata.resource_version.as_deref()?;
        Some(version).filter(|version| !version.is_empty())
    }

    pub(crate) fn peek(&self) -> Peek {
        let own = |text: &Option<Cow<'_, str>>| text.as_deref().map(Box::from);
        let metadata = &self.metadata;
        Peek {
            uid: own(&metadata.uid),
            namespace: own(&metadata.namespace),
            name: own(&metadata.name),
            resource_version: own(&metadata.resource_version),
        }
    }

    /// Copies the object, usually without its `managedFields`, and inserts bytes after its opening
    /// brace.
    fn copy(&self, object: &[u8], inserted: &[u8], managed: ManagedFields) -> Bytes {
        let Range { start, end } = match managed {
            ManagedFields::Drop => self.managed_fields.clone(),
            ManagedFields::Keep => 0..0,
        };
        let begin = object.len() - object.trim_ascii_start().len() + 1;
        let begin = if inserted.is_empty() { 0 } else { begin };
        let pieces = [
            object.get(..begin),
            Some(inserted),
            object.get(begin..start.max(begin)),
            object.get(end.max(begin)..),
        ];
        // One allocation of the exact size.
        Bytes::from(pieces.map(Option::unwrap_or_default).concat())
    }

    /// Returns the fields to insert after the opening brace, so that the object contains its type.
    fn missing(&self, kind: &Kind, object: &[u8]) -> Vec<u8> {
        let fields = [
            ("apiVersion", &self.api_version, &kind.api_version),
            ("kind", &self.kind, &kind.kind),
        ];
        let mut text = Vec::new();
        for (name, own, known) in fields {
            if own.as_deref().is_none_or(str::is_empty) && !known.is_empty() {
                text.push(b'"');
                text.extend_from_slice(name.as_bytes());
                text.extend_from_slice(b"\":");
                text.extend_from_slice(
                    serde_json::Value::from(known.as_str())
                        .to_string()
                        .as_bytes(),
                );
                text.push(b',');
            }
        }
        let rest = object.trim_ascii_start().strip_prefix(b"{");
        if rest.is_some_and(|rest| rest.trim_ascii_start().starts_with(b"}")) {
            text.pop();
        }
        text
    }
}

impl<'a> From<outline::Outline<'a>> for Outline<'a> {
    fn from(found: outline::Outline<'a>) -> Self {
        Self {
            api_version: found.api_version.map(Cow::Borrowed),
            kind: found.kind.map(Cow::Borrowed),
            metadata: Metadata {
                uid: found.uid.map(Cow::Borrowed),
                namespace: found.namespace.map(Cow::Borrowed),
                name: found.name.map(Cow::Borrowed),
                resource_version: found.resource_version.map(Cow::Borrowed),
            },
            managed_fields: found.managed_fields,
        }
    }
}

impl Item {
    /// Copies an object out of a larger document.
    pub(crate) fn new(
        event: EventType,
        outline: &Outline<'_>,
        object: &[u8],
        managed: ManagedFields,
    ) -> Self {
        Self {
            event,
            key: outline.peek(),
            raw: outline.copy(object, b"", managed),
        }
    }

    /// Copies an item of a list.
    pub(crate) fn listed(
        object: &[u8],
        kind: &Kind,
        managed: ManagedFields,
    ) -> Result<Self, Error> {
        let outline =
            Outline::of(object).map_err(|error| Error::malformed("an item of the list", &error))?;
        let missing = outline.missing(kind, object);
        Ok(Self {
            event: EventType::Listed,
            key: outline.peek(),
            raw: outline.copy(object, &missing, managed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn kind() -> Kind {
        Kind {
            api_version: "kopf.dev/v1".to_owned(),
            kind: "KopfExample".to_owned(),
        }
    }

    fn listed(object: &str) -> Value {
        let item = Item::listed(object.as_bytes(), &kind(), ManagedFields::Drop).unwrap();
        serde_json::from_slice(&item.raw).unwrap()
    }

    #[test]
    fn peeking_finds_the_identity_anywhere() {
        let object = br#"{"spec": {"metadata": {"uid": "no"}, "deep": [[[{}]]]},
            "metadata": {"managedFields": [{"f:uid": {}}], "uid": "u\u0031", "name": "n",
                         "resourceVersion": "5", "namespace": null},
            "status": 1e5}"#;
        let peek = Outline::of(object).unwrap().peek();
        assert_eq!(peek.uid.as_deref(), Some("u1"));
        assert_eq!(peek.name.as_deref(), Some("n"));
        assert_eq!(peek.namespace, None);
        assert_eq!(peek.resource_version.as_deref(), Some("5"));
    }

    #[test]
    fn peeking_at_random_bytes_never_panics() {
        for object in [
            &b"{}"[..],
            br#"{"metadata": null}"#,
            br#"{"metadata": {}, "x": 1}"#,
        ] {
            assert_eq!(Outline::of(object).unwrap().peek(), Peek::default());
        }
        for object in [
            &b""[..],
            b"{",
            b"null",
            b"1",
            b"{} {}",
            b"[]",
            b"\xff",
            br#"{"metadata": 1}"#,
        ] {
            assert!(
                Outline::of(object).is_err(),
                "{}",
                String::from_utf8_lossy(object)
            );
        }
    }

    #[test]
    fn items_of_lists_get_their_type() {
        let full = json!({"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "spec": {"a": 1}});
        assert_eq!(listed(r#"{"spec": {"a": 1}}"#), full);
        assert_eq!(listed(r#"{"kind":"KopfExample", "spec": {"a": 1}}"#), full);
        assert_eq!(
            listed(r#"{"apiVersion":"kopf.dev/v1","spec":{"a":1}}"#),
            full
        );
        assert_eq!(
            listed("{ }"),
            json!({"apiVersion": "kopf.dev/v1", "kind": "KopfExample"})
        );
        let other = json!({"apiVersion": "v1", "kind": "Pod"});
        assert_eq!(listed(&other.to_string()), other);
    }

    #[test]
    fn managed_fields_are_dropped_by_default() {
        let object = br#"{"metadata":{"name":"a","managedFields":[{"f:x":{}}]},"spec":{}}"#;
        let lean = br#"{"metadata":{"name":"a"},"spec":{}}"#;
        let outline = Outline::of(object).unwrap();
        let item = Item::new(EventType::Added, &outline, object, ManagedFields::Drop);
        assert_eq!(&item.raw[..], lean);
        let listed = Item::listed(object, &Kind::default(), ManagedFields::Drop).unwrap();
        assert_eq!(&listed.raw[..], lean);
        let listed = Item::listed(object, &kind(), ManagedFields::Drop).unwrap();
        let expected = br#"{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"name":"a"},"spec":{}}"#;
        assert_eq!(&listed.raw[..], expected);
    }

    #[test]
    fn managed_fields_are_kept_on_request() {
        let object = br#"{"metadata":{"name":"a","managedFields":[{"f:x":{}}]},"spec":{}}"#;
        let outline = Outline::of(object).unwrap();
        let item = Item::new(EventType::Added, &outline, object, ManagedFields::Keep);
        assert_eq!(&item.raw[..], object);
        let listed = Item::listed(object, &kind(), ManagedFields::Keep).unwrap();
        let expected = br#"{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"name":"a","managedFields":[{"f:x":{}}]},"spec":{}}"#;
        assert_eq!(&listed.raw[..], expected);
    }

    #[test]
    fn unknown_types_are_not_inserted() {
        let item = Item::listed(b"{\"a\": 1}", &Kind::default(), ManagedFields::Drop).unwrap();
        assert_eq!(&item.raw[..], b"{\"a\": 1}");
    }
}
