//! Definitions of custom resources in the protobuf form of `/openapi/v2`.
//!
//! Field numbers are those of gnostic's `openapiv2`. Constraints of values are omitted: clients
//! read only fields and types.

use std::collections::BTreeMap;

use kopf_sandbox_schema::kind::Kinds;
use serde_json::{Map, Value};

use super::gnostic::{Message, named};
use super::swagger::swagger;

const REFERENCE: &str = "#/definitions/";

/// Returns the definitions of all custom resources and of their references.
pub(super) fn definitions(kinds: &Kinds) -> Message {
    let mut message = Message::default();
    if !kinds.iter().any(|kind| kind.is_custom()) {
        return message;
    }
    let document = swagger(kinds);
    let all = document.get("definitions").and_then(Value::as_object);
    let Some(all) = all else {
        return message;
    };
    let mut needed: BTreeMap<&str, &Value> = BTreeMap::new();
    for (name, schema) in all {
        if is_custom(schema, kinds) {
            collect(name, all, &mut needed);
        }
    }
    for (name, definition) in needed {
        message.message(1, &named(name, &schema(definition)));
    }
    message
}

/// Returns `true` if a definition is that of a custom resource.
fn is_custom(schema: &Value, kinds: &Kinds) -> bool {
    let of = schema.get("x-kubernetes-group-version-kind");
    of.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|of| {
            let text = |field: &str| of.get(field).and_then(Value::as_str).unwrap_or_default();
            let kind = kinds.by_kind(text("group"), text("kind"));
            kind.is_some_and(|kind| kind.is_custom())
        })
}

/// Adds a definition and those that it refers to.
fn collect<'a>(
    name: &'a str,
    all: &'a Map<String, Value>,
    needed: &mut BTreeMap<&'a str, &'a Value>,
) {
    let mut todo = vec![name];
    while let Some(name) = todo.pop() {
        let Some(schema) = all.get(name) else {
            continue;
        };
        if needed.insert(name, schema).is_none() {
            references(schema, &mut todo);
        }
    }
}

fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str);
            found.extend(reference.and_then(|it| it.strip_prefix(REFERENCE)));
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

fn schema(of: &Value) -> Message {
    let mut message = Message::default();
    let fields = of.as_object();
    for (name, value) in fields.into_iter().flatten() {
        field(name, value, &mut message);
    }
    message
}

fn field(name: &str, value: &Value, into: &mut Message) {
    let text = value.as_str().unwrap_or_default();
    let number = match name {
        "$ref" => 1,
        "format" => 2,
        "title" => 3,
        "description" => 4,
        _ => 0,
    };
    if number > 0 {
        into.text(number, text);
        return;
    }
    if name == "required" {
        let names = value.as_array().into_iter().flatten();
        names.filter_map(Value::as_str).for_each(|name| {
            into.text(19, name);
        });
        return;
    }
    let (number, message) = match name {
        "default" => (5, any(value)),
        "additionalProperties" => (21, wrapped(value)),
        "type" => {
            let mut item = Message::default();
            item.text(1, text);
            (22, item)
        }
        "items" => (23, wrapped(value)),
        "properties" => {
            let mut properties = Message::default();
            for (name, property) in value.as_object().into_iter().flatten() {
                properties.message(1, &named(name, &schema(property)));
            }
            (25, properties)
        }
        _ if name.starts_with("x-") => (31, named(name, &any(value))),
        _ => return,
    };
    into.message(number, &message);
}

/// Returns a message whose field 1 is a schema. A boolean becomes an empty schema.
fn wrapped(value: &Value) -> Message {
    let mut message = Message::default();
    message.message(1, &schema(value));
    message
}

/// Returns a message with any value. JSON is valid YAML.
fn any(value: &Value) -> Message {
    let mut message = Message::default();
    message.text(2, &value.to_string());
    message
}
