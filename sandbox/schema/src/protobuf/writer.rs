//! Encoding of the JSON of an object as messages of known types.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::write_special;
use crate::typing::{Field, Shape, TypeRef, TypeTable};

/// A message builder.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn varint(&mut self, number: u32, value: u64) {
        self.raw(u64::from(number) << 3);
        self.raw(value);
    }

    pub(super) fn fixed64(&mut self, number: u32, bits: u64) {
        self.raw(u64::from(number) << 3 | 1);
        self.0.extend_from_slice(&bits.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, number: u32, content: &[u8]) {
        self.raw(u64::from(number) << 3 | 2);
        self.raw(content.len() as u64);
        self.0.extend_from_slice(content);
    }

    pub(super) fn message(&mut self, number: u32, content: &Self) {
        self.bytes(number, &content.0);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn raw(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }
}

/// A writer of messages by the table of types.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writer<'t> {
    pub(super) types: &'t TypeTable,
}

impl Writer<'_> {
    /// Writes the fields of a struct. Unknown fields and nulls are omitted.
    pub(super) fn message(self, of: TypeRef, object: &Value) -> Result<Message, String> {
        let target = self.types.get(self.types.target(of));
        let Value::Object(map) = object else {
            return Err(mismatch(&target.go, object));
        };
        let mut message = Message::default();
        for (name, value) in map.iter().filter(|(_, value)| !value.is_null()) {
            if let Some(field) = target.field(name) {
                self.field(field, value, &mut message)?;
            }
        }
        Ok(message)
    }

    /// Writes a field of a struct. Embedded structs are messages: each field is in a separate
    /// occurrence, which readers merge.
    fn field(self, field: &Field, value: &Value, into: &mut Message) -> Result<(), String> {
        let Some((number, outer)) = field.numbers.split_last() else {
            return Ok(()); // in the envelope
        };
        if outer.is_empty() {
            return self.value(field.of, *number, value, into);
        }
        let mut inner = Message::default();
        self.value(field.of, *number, value, &mut inner)?;
        let (first, between) = outer.split_first().unwrap_or((number, &[]));
        for number in between.iter().rev() {
            let mut around = Message::default();
            around.message(*number, &inner);
            inner = around;
        }
        into.message(*first, &inner);
        Ok(())
    }

    /// Writes a value as a numbered field. Lists and maps are several occurrences.
    pub(super) fn value(
        self,
        of: TypeRef,
        number: u32,
        value: &Value,
        into: &mut Message,
    ) -> Result<(), String> {
        let target = self.types.get(of);
        match &target.shape {
            Shape::Pointer(to) => self.value(*to, number, value, into)?,
            Shape::Struct(_) => into.message(number, &self.message(of, value)?),
            Shape::Slice(elem) if target.wrapped => {
                let mut items = Message::default();
                for item in list(value, &target.go)? {
                    self.value(*elem, 1, item, &mut items)?;
                }
                into.message(number, &items);
            }
            Shape::Slice(elem) => {
                for item in list(value, &target.go)? {
                    self.value(*elem, number, item, into)?;
                }
            }
            Shape::Map(elem) => {
                for (key, value) in map(value, &target.go)? {
                    let mut entry = Message::default();
                    entry.bytes(1, key.as_bytes());
                    self.value(*elem, 2, value, &mut entry)?;
                    into.message(number, &entry);
                }
            }
            Shape::Custom(custom) => {
                into.message(number, &write_special::message(self, *custom, value)?);
            }
            Shape::Bytes => {
                let decoded = STANDARD.decode(text(value, &target.go)?);
                into.bytes(number, &decoded.map_err(|error| error.to_string())?);
            }
            Shape::String => into.bytes(number, text(value, &target.go)?.as_bytes()),
            Shape::Bool => {
                let flag = value.as_bool().ok_or_else(|| mismatch(&target.go, value))?;
                into.varint(number, u64::from(flag));
            }
            Shape::Int32 | Shape::Int64 => {
                let whole = value.as_i64().ok_or_else(|| mismatch(&target.go, value))?;
                into.varint(number, whole.cast_unsigned());
            }
            Shape::Float => {
                let float = value.as_f64().ok_or_else(|| mismatch(&target.go, value))?;
                into.fixed64(number, float.to_bits());
            }
        }
        Ok(())
    }
}

pub(super) fn mismatch(expected: impl Display, value: &Value) -> String {
    format!("cannot write {value} as {expected}")
}

pub(super) fn text<'a>(value: &'a Value, expected: &str) -> Result<&'a str, String> {
    match value {
        Value::Null => Ok(""), // empty items of lists and maps
        value => value.as_str().ok_or_else(|| mismatch(expected, value)),
    }
}

fn list<'a>(value: &'a Value, expected: &str) -> Result<&'a [Value], String> {
    let items = value.as_array().map(Vec::as_slice);
    items.ok_or_else(|| mismatch(expected, value))
}

fn map<'a>(value: &'a Value, expected: &str) -> Result<&'a Map<String, Value>, String> {
    value.as_object().ok_or_else(|| mismatch(expected, value))
}
