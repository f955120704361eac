//! Types with different forms in JSON and protobuf.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::envelope;
use super::message::{Reader, bytes, int32, text, varint};
use super::wire::Fields;
use crate::typing::{Custom, TypeRef};

/// The precision of a timestamp.
#[derive(Debug, Clone, Copy)]
enum Precision {
    Seconds,
    Micros,
}

/// Go's zero time: the beginning of the year 1, in Unix seconds.
const NO_MOMENT: i64 = -62_135_596_800;

/// Reads a value of such a type. It is null where Go serialises null.
pub(super) fn read(
    reader: Reader<'_>,
    custom: Custom,
    message: &[u8],
    name: &str,
) -> Result<Value, String> {
    match custom {
        Custom::Time => moment(message, name, Precision::Seconds),
        Custom::MicroTime => moment(message, name, Precision::Micros),
        Custom::Quantity => quantity(message, name),
        Custom::IntOrString => int_or_string(message, name),
        Custom::Raw => raw(reader, message, name),
        Custom::SchemaOrBool(schema) => schema_or_bool(reader, schema, message, name),
        Custom::SchemaOrArray(schema) => schema_or_list(reader, schema, message, name, true),
        Custom::SchemaOrStrings(schema) => schema_or_list(reader, schema, message, name, false),
    }
}

pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn moment(message: &[u8], name: &str, precision: Precision) -> Result<Value, String> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut fields = Fields::new(message, "Timestamp");
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => seconds = varint(payload, name)?.cast_signed(),
            2 => nanos = int32(varint(payload, name)?),
            _ => {}
        }
    }
    let (kept, form) = match precision {
        // The server drops fractions of seconds.
        Precision::Seconds => (0, "%Y-%m-%dT%H:%M:%SZ"),
        Precision::Micros => (nanos - nanos % 1_000, "%Y-%m-%dT%H:%M:%S.%6fZ"),
    };
    if seconds == NO_MOMENT && kept == 0 {
        return Ok(Value::Null);
    }
    let moment = Timestamp::from_second(seconds)
        .and_then(|whole| whole.checked_add(SignedDuration::from_nanos(i64::from(kept))));
    match moment {
        Ok(moment) if moment.as_second() >= NO_MOMENT => {
            Ok(moment.strftime(form).to_string().into())
        }
        _ => Err(format!("{name}: year outside of range [0,9999]")),
    }
}

fn quantity(message: &[u8], name: &str) -> Result<Value, String> {
    let mut quantity = Value::from("0");
    let mut fields = Fields::new(message, "Quantity");
    while let Some((number, payload)) = fields.next()? {
        if number == 1 {
            quantity = text(bytes(payload, name)?).into();
        }
    }
    Ok(quantity)
}

fn int_or_string(message: &[u8], name: &str) -> Result<Value, String> {
    let (mut form, mut number_form, mut text_form) = (0, 0, String::new());
    let mut fields = Fields::new(message, "IntOrString");
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => form = varint(payload, name)?,
            2 => number_form = int32(varint(payload, name)?),
            3 => text_form = text(bytes(payload, name)?),
            _ => {}
        }
    }
    match form {
        0 => Ok(number_form.into()),
        1 => Ok(text_form.into()),
        _ => Err("impossible IntOrString.Type".to_owned()),
    }
}

/// Reads embedded JSON, or another message with its envelope.
fn raw(reader: Reader<'_>, message: &[u8], name: &str) -> Result<Value, String> {
    let mut raw: &[u8] = &[];
    let mut fields = Fields::new(message, "RawExtension");
    while let Some((number, payload)) = fields.next()? {
        if number == 1 {
            raw = bytes(payload, name)?;
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    if raw.starts_with(envelope::MAGIC) {
        return envelope::nested(reader, raw);
    }
    let value = serde_json::from_str(&String::from_utf8_lossy(raw))
        .map_err(|error| format!("{name}: {error}"))?;
    check_depth(reader, &value)?;
    Ok(value)
}

fn check_depth(reader: Reader<'_>, value: &Value) -> Result<(), String> {
    match value {
        Value::Array(items) => {
            let reader = reader.deeper()?;
            items.iter().try_for_each(|item| check_depth(reader, item))
        }
        Value::Object(map) => {
            let reader = reader.deeper()?;
            map.values()
                .try_for_each(|value| check_depth(reader, value))
        }
        _ => Ok(()),
    }
}

fn schema_or_bool(
    reader: Reader<'_>,
    of: TypeRef,
    message: &[u8],
    name: &str,
) -> Result<Value, String> {
    let mut allows = false;
    let mut schema = None;
    let mut fields = Fields::new(message, "JSONSchemaPropsOrBool");
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => allows = varint(payload, name)? != 0,
            2 => {
                let into = schema.get_or_insert_with(Map::new);
                reader.message(of, bytes(payload, name)?, into)?;
            }
            _ => {}
        }
    }
    Ok(schema.map_or(Value::Bool(allows), Value::Object))
}

/// Reads a schema, or a list of schemas or strings. If both are present, the list wins.
fn schema_or_list(
    reader: Reader<'_>,
    of: TypeRef,
    message: &[u8],
    name: &str,
    of_schemas: bool,
) -> Result<Value, String> {
    let mut schema = None;
    let mut items = Vec::new();
    let mut fields = Fields::new(message, "JSONSchemaPropsOrArray");
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => {
                let into = schema.get_or_insert_with(Map::new);
                reader.message(of, bytes(payload, name)?, into)?;
            }
            2 if of_schemas => {
                let mut item = Map::new();
                reader
                    .deeper()?
                    .message(of, bytes(payload, name)?, &mut item)?;
                items.push(Value::Object(item));
            }
            2 => items.push(text(bytes(payload, name)?).into()),
            _ => {}
        }
    }
    if items.is_empty() {
        Ok(schema.map_or(Value::Null, Value::Object))
    } else {
        Ok(Value::Array(items))
    }
}
