//! Encoding of values with special forms: times, quantities, raw JSON, parts of schemas.

use jiff::Timestamp;
use serde_json::Value;

use super::writer::{Message, Writer, mismatch, text};
use crate::typing::{Custom, TypeRef};

/// Writes a value of such a type.
pub(super) fn message(
    writer: Writer<'_>,
    custom: Custom,
    value: &Value,
) -> Result<Message, String> {
    let mut message = Message::default();
    match custom {
        Custom::Time | Custom::MicroTime => moment(value, &mut message)?,
        Custom::Quantity => {
            let written = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(), // a number
            };
            message.bytes(1, written.as_bytes());
        }
        Custom::IntOrString => match value {
            Value::String(text) => {
                message.varint(1, 1);
                message.varint(2, 0);
                message.bytes(3, text.as_bytes());
            }
            other => {
                let number = other
                    .as_i64()
                    .ok_or_else(|| mismatch("IntOrString", value))?;
                message.varint(1, 0);
                message.varint(2, number.cast_unsigned());
                message.bytes(3, b"");
            }
        },
        Custom::Raw => message.bytes(1, value.to_string().as_bytes()),
        Custom::SchemaOrBool(schema) => match value {
            Value::Bool(allows) => message.varint(1, u64::from(*allows)),
            other => {
                message.varint(1, 1);
                message.message(2, &writer.message(schema, other)?);
            }
        },
        Custom::SchemaOrArray(schema) => match value {
            Value::Array(items) => schemas(writer, schema, items, &mut message)?,
            other => message.message(1, &writer.message(schema, other)?),
        },
        Custom::SchemaOrStrings(schema) => match value {
            Value::Array(items) => {
                for item in items {
                    message.bytes(2, text(item, "string")?.as_bytes());
                }
            }
            other => message.message(1, &writer.message(schema, other)?),
        },
    }
    Ok(message)
}

fn schemas(
    writer: Writer<'_>,
    of: TypeRef,
    items: &[Value],
    into: &mut Message,
) -> Result<(), String> {
    for item in items {
        into.message(2, &writer.message(of, item)?);
    }
    Ok(())
}

/// Writes a timestamp; null is an empty message.
fn moment(value: &Value, into: &mut Message) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let moment: Timestamp = text(value, "Time")?
        .parse()
        .map_err(|error| format!("{value}: {error}"))?;
    into.varint(1, moment.as_second().cast_unsigned());
    into.varint(2, i64::from(moment.subsec_nanosecond()).cast_unsigned());
    Ok(())
}
