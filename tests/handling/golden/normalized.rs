//! Normalized writes, objects and logs: without values that differ between any two runs.

use kopf_testing::recording::Call;
use serde_json::{Map, Value, json};
use tracing::Level;

use crate::stage::Record;

/// A normalized write.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Write {
    /// Name of the object, or `events`.
    pub(super) object: String,
    subresource: String,
    body: Value,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) object: String,
    pub(super) text: String,
}

/// Returns the accepted writes of a test.
pub(super) fn of_calls(calls: &[Call]) -> Vec<Write> {
    let accepted = calls.iter().filter(|call| call.is_accepted());
    accepted
        .filter_map(|call| {
            let name = call.name.as_deref().unwrap_or_default();
            let subresource = call.subresource.as_deref().unwrap_or_default();
            of_write(&call.resource, name, subresource, &call.body)
        })
        .collect()
}

/// Normalizes a write. Returns `None` if it only touches the object.
pub(super) fn of_write(
    resource: &str,
    name: &str,
    subresource: &str,
    body: &Value,
) -> Option<Write> {
    let mut body = scrubbed(body);
    if let Value::Object(patch) = &mut body {
        // The audit log contains it even if the client did not send it.
        patch.remove("kind");
        drop_empty(patch);
        if patch.is_empty() {
            return None;
        }
    }
    let object = if resource == "events" { resource } else { name };
    Some(Write {
        object: object.to_owned(),
        subresource: subresource.to_owned(),
        body,
    })
}

/// Normalizes an object.
pub(super) fn of_object(object: &Value) -> Value {
    let mut object = scrubbed(object);
    // Left in the status by touches.
    if let Some(status) = object["status"].as_object_mut()
        && status.get("kopf") == Some(&json!({}))
    {
        status.remove("kopf");
    }
    object
}

/// Returns the log lines about objects.
pub(super) fn of_records(records: &[Record]) -> Vec<Line> {
    let about_objects = records.iter().filter(|r| r.target == "kopf.objects");
    of_lines(about_objects.map(|record| {
        let level = match record.level {
            Level::ERROR => "ERROR",
            Level::WARN => "WARNING",
            Level::INFO => "INFO",
            _ => "DEBUG",
        };
        (level, &*record.object, &*record.message)
    }))
}

/// Selects the main lines from (level, object, message).
pub(super) fn of_lines<'a>(lines: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> Vec<Line> {
    let mut kept: Vec<Line> = Vec::new();
    for (level, object, message) in lines {
        let Some(message) = main_message(message) else {
            continue;
        };
        let line = Line {
            object: object.to_owned(),
            text: format!("{level}: {message}"),
        };
        // The number of cycles of a waiting object varies.
        let is_repeated = line.text.ends_with("is in progress")
            && kept.iter().rev().find(|known| known.object == object) == Some(&line);
        if !is_repeated {
            kept.push(line);
        }
    }
    kept
}

fn main_message(message: &str) -> Option<&str> {
    if let Some((beginning, _)) = message.split_once(" is in progress: ") {
        return message.get(..beginning.len() + " is in progress".len());
    }
    let is_main = ["Handler '", "Daemon '", "Timer '"]
        .iter()
        .any(|label| message.starts_with(label))
        || message.contains(" is processed: ")
        || message.contains("the finalizer")
        || message.starts_with("Deleted, really deleted");
    is_main.then_some(message)
}

/// Removes times, identities and touches.
fn scrubbed(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, _)| !is_accidental(key))
                .map(|(key, value)| (key.clone(), scrubbed(value)))
                .collect(),
        ),
        Value::Array(items) => {
            // The tests of a JSON patch.
            let is_change = |item: &&Value| item["op"] != "test";
            Value::Array(items.iter().filter(is_change).map(scrubbed_item).collect())
        }
        Value::String(text) => scrubbed_text(text),
        other => other.clone(),
    }
}

/// The original removes the only finalizer with the list, and we remove it by its position.
fn scrubbed_item(item: &Value) -> Value {
    let mut item = scrubbed(item);
    let path = item["path"].as_str().unwrap_or_default();
    if item["op"] == "remove" && path.starts_with("/metadata/finalizers/") {
        item["path"] = "/metadata/finalizers".into();
    }
    item
}

fn is_accidental(key: &str) -> bool {
    let identity = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "namespace",
        "apiVersion",
        "dummy",
    ];
    // The recordings have no attempted essences: the original loses these changes.
    let additions = ["/touch-dummy", "/attempted-essences"];
    identity.contains(&key) || additions.iter().any(|name| key.ends_with(name))
}

/// Progress records are compared as strings, including the field order of the original. The field
/// order of other JSON strings is not significant.
fn scrubbed_text(text: &str) -> Value {
    if text.starts_with("{\"started\":") {
        return without_times(text).into();
    }
    if text.starts_with('{')
        && let Ok(json) = serde_json::from_str::<Value>(text)
    {
        return json!({"json": json, "end": text.ends_with('\n')});
    }
    if time_at(text) == Some(text.len()) {
        return "TIME".into();
    }
    text.into()
}

fn without_times(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let step = if let Some(length) = time_at(rest) {
            result.push_str("TIME");
            length
        } else {
            result.push(first);
            first.len_utf8()
        };
        rest = rest.get(step..).unwrap_or_default();
    }
    result
}

/// Returns the length of a timestamp at the start of the text.
fn time_at(text: &str) -> Option<usize> {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let bytes = text.as_bytes();
    let fits = bytes.len() > SHAPE.len()
        && SHAPE.iter().zip(bytes).all(|(shape, byte)| match shape {
            b'0' => byte.is_ascii_digit(),
            shape => shape == byte,
        });
    if !fits {
        return None;
    }
    let rest = text.get(SHAPE.len()..)?;
    let zone = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
    let zone_length = match rest.get(zone..)? {
        rest if rest.starts_with('Z') => 1,
        rest if rest.starts_with("+00:00") => 6,
        _ => return None,
    };
    Some(SHAPE.len() + zone + zone_length)
}

/// Removes fields that are empty because of touches.
fn drop_empty(patch: &mut Map<String, Value>) {
    for parent in ["metadata", "status"] {
        let Some(Value::Object(inner)) = patch.get_mut(parent) else {
            continue;
        };
        inner.retain(|key, value| {
            !(matches!(&**key, "annotations" | "kopf") && *value == json!({}))
        });
        if inner.is_empty() {
            patch.remove(parent);
        }
    }
}

#[test]
fn times_are_recognised() {
    assert_eq!(time_at("2026-11-15T00:38:26.092081+00:00\","), Some(32));
    assert_eq!(time_at("2026-11-15T00:38:26Z"), Some(20));
    assert_eq!(time_at("2026-11-15T00:38:26"), None);
    assert_eq!(time_at("not yet"), None);
    let record = r#"{"started":"2026-11-15T00:38:26.092081+00:00","message":"ä"}"#;
    assert_eq!(without_times(record), r#"{"started":"TIME","message":"ä"}"#);
}

#[test]
fn touches_are_not_writes() {
    let touch = json!({"metadata": {"annotations": {"example.com/touch-dummy": "now"}}});
    assert_eq!(of_write("things", "obj", "", &touch), None);
    let touch = json!({"status": {"kopf": {"dummy": "now"}}});
    assert_eq!(of_write("things", "obj", "status", &touch), None);
    let write = json!({"metadata": {"annotations": {"example.com/other": "now"}}});
    assert!(of_write("things", "obj", "", &write).is_some());
}
