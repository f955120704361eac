//! One line of a watch: `{"type": "ADDED", "object": {…}}`.

use std::borrow::Cow;

use kopf_core::cause::EventType;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, Status};
use crate::item::{Item, Outline};

/// What a line says.
#[derive(Debug)]
pub(super) enum Line {
    /// Something has happened to an object.
    Event(Item),
    /// Nothing has happened up to this version.
    Bookmark(Option<Box<str>>),
    /// The server gives up this watch.
    Error(Box<Status>),
    /// Something that was invented later; its version counts nevertheless.
    Unknown(String, Option<Box<str>>),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Line {
    pub(super) fn parse(line: &[u8]) -> Result<Self, Error> {
        let malformed =
            |error: &serde_json::Error| Error::malformed("an event of the watch", error);
        // Servers write lines in one way only. Then the object is known to be all that is between
        // the known beginning and end, if only it proves to be one JSON value: one pass is saved.
        if let Some((kind, object)) = usual(line)
            && let Ok(outline) = Outline::of(object)
        {
            return Ok(Self::from(kind, object, &outline));
        }
        let envelope: Envelope<'_> =
            serde_json::from_slice(line).map_err(|error| malformed(&error))?;
        let object = envelope.object.get().as_bytes();
        let outline = Outline::of(object).map_err(|error| malformed(&error))?;
        Ok(Self::from(&envelope.kind, object, &outline))
    }

    fn from(kind: &str, object: &[u8], outline: &Outline<'_>) -> Self {
        let event = match kind {
            "ADDED" => EventType::Added,
            "MODIFIED" => EventType::Modified,
            "DELETED" => EventType::Deleted,
            "BOOKMARK" => return Self::Bookmark(outline.resource_version().map(Box::from)),
            "ERROR" => return Self::Error(Box::new(Status::from_event(object))),
            other => {
                let version = outline.resource_version().map(Box::from);
                return Self::Unknown(crate::error::cut(other), version);
            }
        };
        Self::Event(Item::new(event, outline, object))
    }

    /// The version up to which everything is known after this line.
    pub(super) fn version(&self) -> Option<&str> {
        match self {
            Self::Event(item) => item.key.resource_version.as_deref(),
            Self::Bookmark(version) | Self::Unknown(_, version) => version.as_deref(),
            Self::Error(_) => None,
        }
        .filter(|version| !version.is_empty())
    }
}

/// The type and the object of a line that is written as all servers do it.
fn usual(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.trim_ascii_end().strip_prefix(br#"{"type":""#)?;
    let end = rest.iter().position(|byte| !byte.is_ascii_uppercase())?;
    let (kind, rest) = rest.split_at_checked(end)?;
    let object = rest.strip_prefix(br#"","object":"#)?.strip_suffix(b"}")?;
    Some((std::str::from_utf8(kind).ok()?, object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(line: &str) -> Item {
        match Line::parse(line.as_bytes()).unwrap() {
            Line::Event(item) => item,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn objects_are_read_however_deep_they_are() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(600), "}".repeat(600));
        let object = format!(r#"{{"metadata":{{"uid":"u"}},"spec":{deep},"text":"\ud800"}}"#);
        for line in [
            format!(r#"{{"type":"ADDED","object":{object}}}"#),
            format!(r#"{{"object": {object}, "type": "ADDED"}}"#),
        ] {
            let item = item(&line);
            assert_eq!(item.key.uid.as_deref(), Some("u"));
            let body = kopf_core::body::Body::parse(&item.raw).unwrap();
            assert!(body.spec()["a"]["a"].is_object());
            assert_eq!(body.get("text"), "\u{fffd}");
        }
    }

    #[test]
    fn additions_and_modifications_are_kept_apart() {
        for (kind, event) in [
            ("ADDED", EventType::Added),
            ("MODIFIED", EventType::Modified),
            ("DELETED", EventType::Deleted),
        ] {
            let item = item(&format!(
                r#"{{"type":"{kind}","object":{{"metadata":{{"uid":"u","resourceVersion":"7"}}}}}}"#
            ));
            assert_eq!(item.event, event);
            assert_eq!(item.key.uid.as_deref(), Some("u"));
            assert_eq!(
                &item.raw[..],
                br#"{"metadata":{"uid":"u","resourceVersion":"7"}}"#
            );
        }
    }

    #[test]
    fn unusual_lines_mean_the_same() {
        let usual = item(r#"{"type":"ADDED","object":{"metadata":{"name":"}\"}"}}}"#);
        for line in [
            r#" {"type": "ADDED", "object": {"metadata":{"name":"}\"}"}}}  "#,
            r#"{"object":{"metadata":{"name":"}\"}"}},"type":"ADDED"}"#,
            r#"{"type":"ADDED","object":{"metadata":{"name":"}\"}"}},"more":{"a":1}}"#,
            "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"}\\\"}\"}}}\r",
        ] {
            let item = item(line);
            assert_eq!((item.event, &item.key), (usual.event, &usual.key), "{line}");
            assert_eq!(item.raw, usual.raw, "{line}");
        }
    }

    #[test]
    fn bookmarks_have_only_a_version() {
        let line = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}}"#;
        let line = Line::parse(line).unwrap();
        assert!(matches!(line, Line::Bookmark(_)));
        assert_eq!(line.version(), Some("12"));
        let line = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":""}}}"#;
        assert_eq!(Line::parse(line).unwrap().version(), None);
    }

    #[test]
    fn errors_are_statuses() {
        let line = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"old"}}"#;
        match Line::parse(line).unwrap() {
            Line::Error(status) => assert_eq!(status.code, 410),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn unknown_types_are_told() {
        let line = br#"{"type":"MOVED","object":{"metadata":{"resourceVersion":"3"}}}"#;
        let line = Line::parse(line).unwrap();
        assert!(matches!(&line, Line::Unknown(kind, _) if kind == "MOVED"));
        assert_eq!(line.version(), Some("3"));
    }

    #[test]
    fn nonsense_is_an_error() {
        for line in [
            "",
            "{",
            "null",
            "<html>",
            r#"{"type":"ADDED"}"#,
            r#"{"type":"ADDED","object":}"#,
            r#"{"type":"ADDED","object":{}"#,
            r#"{"type":"ADDED","object":{"metadata":{"name":"x"}"#,
            r#"{"type":"ADDED","object":[]}"#,
            r#"{"type":"ADDED","object":"text"}"#,
            r#"{"type":1,"object":{}}"#,
            r#"{"kind":"Status","code":403}"#,
            r#"{"type":"ADDED","object":{}},"object":{}}"#,
        ] {
            assert!(Line::parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
