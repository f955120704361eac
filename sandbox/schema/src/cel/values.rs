//! Conversion from JSON to CEL values.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel::Value;
use kube_cel::cel::objects::Key;
use serde_json::Value as Json;

use super::opaque::{as_list, type_name};
use super::times;

/// Reserved words, which are escaped in names of fields.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns the escaped form of a reserved word.
pub(super) fn reserved(name: &str) -> Option<String> {
    RESERVED.contains(&name).then(|| format!("__{name}__"))
}

/// Escapes the name of a field for use in expressions.
pub fn escaped(name: &str) -> String {
    if let Some(escaped) = reserved(name) {
        return escaped;
    }
    let mut text = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '_' if rest.peek() == Some(&'_') => {
                rest.next();
                text.push_str("__underscores__");
            }
            '.' => text.push_str("__dot__"),
            '-' => text.push_str("__dash__"),
            '/' => text.push_str("__slash__"),
            other => text.push(other),
        }
    }
    text
}

/// Returns a map value.
pub fn map(entries: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::from(entries.into_iter().collect::<HashMap<String, Value>>())
}

/// Converts a document without a schema. Names of fields are not escaped.
pub fn dynamic(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => number
            .as_i64()
            .map(Value::Int)
            .or_else(|| number.as_u64().map(Value::UInt))
            .or_else(|| number.as_f64().map(Value::Float))
            .unwrap_or(Value::Null),
        Json::String(text) => Value::String(Arc::new(text.clone())),
        Json::Array(items) => Value::List(Arc::new(items.iter().map(dynamic).collect())),
        Json::Object(fields) => map(fields
            .iter()
            .map(|(name, field)| (name.clone(), dynamic(field)))),
    }
}

/// Converts a value to JSON. Keys, timestamps and durations become strings.
///
/// # Errors
///
/// The value has no form in JSON, such as a type.
pub fn to_json(value: &Value) -> Result<Json, String> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(number) => Json::from(*number),
        Value::UInt(number) => Json::from(*number),
        Value::Float(number) => {
            serde_json::Number::from_f64(*number).map_or(Json::Null, Json::Number)
        }
        Value::String(text) => Json::String(text.to_string()),
        Value::Bytes(bytes) => Json::String(STANDARD.encode(bytes.as_slice())),
        Value::Map(map) => {
            let entries = map.map.iter().map(|(key, value)| {
                let key = match key {
                    Key::String(text) => text.to_string(),
                    Key::Int(number) => number.to_string(),
                    Key::Uint(number) => number.to_string(),
                    Key::Bool(value) => value.to_string(),
                };
                Ok((key, to_json(value)?))
            });
            Json::Object(entries.collect::<Result<_, String>>()?)
        }
        Value::Timestamp(_) | Value::Duration(_) => Json::String(times::text(value)),
        other => {
            let Some(items) = as_list(other) else {
                let of = type_name(other);
                return Err(format!("unable to convert a value of type {of} to JSON"));
            };
            Json::Array(items.iter().map(to_json).collect::<Result<_, _>>()?)
        }
    })
}

/// Parses a timestamp. Returns the string itself if it is malformed.
pub fn timestamp(text: &str) -> Value {
    let text = Value::String(Arc::new(text.to_owned()));
    times::timestamp(&text).unwrap_or(text)
}

/// Parses a duration. Returns the string itself if it is malformed.
pub fn duration(text: &str) -> Value {
    let text = Value::String(Arc::new(text.to_owned()));
    times::duration(&text).unwrap_or(text)
}
