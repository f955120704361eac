//! One line of a watch: `{"type": "ADDED", "object": {…}}`.
//!
//! Errors quote the beginning of lines that are not events, such as HTML pages. They never quote
//! objects, which can contain secrets.

use std::borrow::Cow;

use kopf_core::body::ManagedFields;
use kopf_core::cause::EventType;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, Status, cut, explain};
use crate::item::{Item, Outline};

/// Upper bound for the quoted part of an unusable line, in bytes.
const EXCERPT: usize = 100;

/// The annotation of the bookmark after the existing objects. Bookmarks contain no other strings of
/// users.
const INITIAL_END: &[u8] = b"k8s.io/initial-events-end";

/// A parsed line.
#[derive(Debug)]
pub(super) enum Line {
    /// A change of an object.
    Event(Item),
    /// A bookmark.
    Bookmark {
        /// Its resource version.
        version: Option<Box<str>>,
        /// `true` if all existing objects were sent before it.
        ends_initial: bool,
    },
    /// An error, after which the server sends nothing more.
    Error(Box<Status>),
    /// An event of an unsupported type, with its resource version.
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
    pub(super) fn parse(line: &[u8], managed: ManagedFields) -> Result<Self, Error> {
        // API servers write lines in one form. Then the object is everything between a known
        // prefix and a known suffix if that is one JSON value, which saves one pass over it.
        if let Some((kind, object)) = canonical(line)
            && let Ok(outline) = Outline::of(object)
        {
            return Ok(Self::from(kind, object, &outline, managed));
        }
        let malformed = |error: serde_json::Error| Error::Malformed {
            reason: format!(
                "a line of the watch is not an event: {}{}",
                explain(&error),
                excerpt(line)
            ),
        };
        let envelope: Envelope<'_> = serde_json::from_slice(line).map_err(malformed)?;
        let object = envelope.object.get().as_bytes();
        let outline = Outline::of(object).map_err(malformed)?;
        Ok(Self::from(&envelope.kind, object, &outline, managed))
    }

    fn from(kind: &str, object: &[u8], outline: &Outline<'_>, managed: ManagedFields) -> Self {
        let event = match kind {
            "ADDED" => EventType::Added,
            "MODIFIED" => EventType::Modified,
            "DELETED" => EventType::Deleted,
            "BOOKMARK" => {
                return Self::Bookmark {
                    version: outline.resource_version().map(Box::from),
                    ends_initial: memmem::find(object, INITIAL_END).is_some(),
                };
            }
            "ERROR" => return Self::Error(Box::new(Status::from_event(object))),
            other => {
                let version = outline.resource_version().map(Box::from);
                return Self::Unknown(cut(other), version);
            }
        };
        Self::Event(Item::new(event, outline, object, managed))
    }

    /// Returns the resource version up to which the watch is complete after this line.
    pub(super) fn version(&self) -> Option<&str> {
        match self {
            Self::Event(item) => item.key.resource_version.as_deref(),
            Self::Bookmark { version, .. } | Self::Unknown(_, version) => version.as_deref(),
            Self::Error(_) => None,
        }
        .filter(|version| !version.is_empty())
    }
}

/// Returns the beginning of a line that contains no object, for messages.
fn excerpt(line: &[u8]) -> String {
    let line = line.trim_ascii();
    let is_object = line.starts_with(b"{");
    let is_safe = !is_object || line.starts_with(br#"{"type":"#) || is_status(line);
    if !is_safe || line.is_empty() {
        return String::new();
    }
    let begin = line.get(..EXCERPT).unwrap_or(line);
    let end = if is_object {
        memmem::find(begin, br#""object""#)
    } else {
        None
    };
    let begin = begin.get(..end.unwrap_or(begin.len())).unwrap_or_default();
    let dots = if begin.len() < line.len() { "…" } else { "" };
    format!(": {:?}{dots}", String::from_utf8_lossy(begin))
}

fn is_status(line: &[u8]) -> bool {
    line.starts_with(br#"{"kind":"Status""#)
}

/// Splits a line in the form that API servers write into its type and its object.
fn canonical(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.trim_ascii_end().strip_prefix(br#"{"type":""#)?;
    let end = rest.iter().position(|byte| !byte.is_ascii_uppercase())?;
    let (kind, rest) = rest.split_at_checked(end)?;
    let object = rest.strip_prefix(br#"","object":"#)?.strip_suffix(b"}")?;
    Some((std::str::from_utf8(kind).ok()?, object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[u8]) -> Result<Line, Error> {
        Line::parse(line, ManagedFields::Drop)
    }

    fn item(line: &str) -> Item {
        match parse(line.as_bytes()).unwrap() {
            Line::Event(item) => item,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn deeply_nested_objects_are_parsed() {
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
    fn event_types_are_distinguished() {
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
    fn lines_in_other_forms_are_parsed() {
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
    fn bookmarks_carry_a_version() {
        let line = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}}"#;
        let line = parse(line).unwrap();
        assert!(matches!(line, Line::Bookmark { .. }));
        assert_eq!(line.version(), Some("12"));
        let line = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":""}}}"#;
        assert_eq!(parse(line).unwrap().version(), None);
    }

    #[test]
    fn error_events_carry_a_status() {
        let line = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"old"}}"#;
        match parse(line).unwrap() {
            Line::Error(status) => assert_eq!(status.code, 410),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn unknown_types_are_returned() {
        let line = br#"{"type":"MOVED","object":{"metadata":{"resourceVersion":"3"}}}"#;
        let line = parse(line).unwrap();
        assert!(matches!(&line, Line::Unknown(kind, _) if kind == "MOVED"));
        assert_eq!(line.version(), Some("3"));
    }

    #[test]
    fn other_text_is_an_error() {
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
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn errors_quote_the_beginning_of_lines_without_objects() {
        let long = format!("<html>{}", "x".repeat(1000));
        let cut = format!(": \"{}\"…", &long[..EXCERPT]);
        for (line, expected) in [
            (&b"<html>\x1b[31m\xff"[..], r#": "<html>\u{1b}[31m�""#),
            (long.as_bytes(), &cut),
            (
                br#"{"type":"ADDED","object":{"data":{"a":"hunter2"#,
                r#": "{\"type\":\"ADDED\",""#,
            ),
            (
                br#"{"kind":"Status","code":403}"#,
                r#": "{\"kind\":\"Status\",\"code\":403}""#,
            ),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        for line in [
            r#"{"data":{"a":"hunter2"},"kind":"Secret"}"#,
            r#"{"object":{"data":{"a":"hunter2"}}}"#,
        ] {
            let error = parse(line.as_bytes()).unwrap_err().to_string();
            assert!(error.ends_with(')'), "{error}");
        }
    }
}
