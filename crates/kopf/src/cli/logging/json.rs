//! The log format `json`: a line per record, as in the original.

use std::fmt;
use std::io;

use jiff::Timestamp;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::ser::Formatter;
use tracing::Level;
use tracing_subscriber::fmt::format::Writer;

use super::record::{Object, Record};

/// Writes the record without a newline.
pub(super) fn line(
    writer: &mut Writer<'_>,
    record: Record,
    now: Timestamp,
    refkey: &str,
    prefix: bool,
) -> fmt::Result {
    let mut record = record;
    if prefix {
        record.message = format!("{}{}", record.object, record.message);
    }
    let line = Line {
        record,
        timestamp: kopf_core::timestamp::format(now),
        refkey,
    };
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
    line.serialize(&mut serializer).map_err(|_| fmt::Error)?;
    writer.write_str(std::str::from_utf8(&bytes).map_err(|_| fmt::Error)?)
}

struct Line<'a> {
    record: Record,
    timestamp: String,
    refkey: &'a str,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Record {
            level,
            message,
            exc_info,
            object,
            extras,
            ..
        } = &self.record;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("message", message)?;
        for (name, value) in extras {
            if is_reserved(name, self.refkey) {
                // Many parsers reject or drop duplicate keys.
                map.serialize_entry(&format!("{name}_"), value)?;
            } else {
                map.serialize_entry(name, value)?;
            }
        }
        if let Some(details) = exc_info {
            map.serialize_entry("exc_info", details)?;
        }
        map.serialize_entry("timestamp", &self.timestamp)?;
        if object.is_known() {
            map.serialize_entry(self.refkey, object)?;
        }
        let severity = match *level {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            _ => "debug",
        };
        map.serialize_entry("severity", severity)?;
        map.end()
    }
}

fn is_reserved(name: &str, refkey: &str) -> bool {
    matches!(name, "message" | "timestamp" | "severity") || name == refkey
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("apiVersion", &self.api_version)?;
        map.serialize_entry("kind", &self.kind)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("uid", &self.uid)?;
        map.serialize_entry("namespace", &self.namespace)?;
        map.end()
    }
}

/// The formatting of the original: spaces after commas and colons, ASCII only.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(|c: char| !c.is_ascii()) {
            let (before, after) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            let mut after = after.chars();
            if let Some(character) = after.next() {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
            rest = after.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn values_are_formatted_as_in_python() {
        let value = json!({"a": [1, "ü😀\n"], "b": {}});
        let mut bytes = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
        value.serialize(&mut serializer).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text, r#"{"a": [1, "\u00fc\ud83d\ude00\n"], "b": {}}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn the_configured_key_of_the_object_is_reserved() {
        assert!(is_reserved("timestamp", "object"));
        assert!(is_reserved("k8s", "k8s"));
        assert!(!is_reserved("object", "k8s"));
    }
}
