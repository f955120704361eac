//! Decoding of messages of known types to JSON.

use serde_json::{Map, Value};

use super::special;
use super::wire::{Fields, Payload, packed};
use crate::typing::{Shape, TypeRef, TypeTable};

/// Maximum depth of the resulting JSON.
///
/// Messages can be nested without limit, and all functions on JSON recurse.
pub(super) const MAX_DEPTH: u32 = 100;

/// A reader of messages by the table of types. Its output is at most a constant factor larger than
/// its input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'t> {
    pub(super) types: &'t TypeTable,
    /// Remaining levels of JSON.
    pub(super) depth: u32,
}

impl Reader<'_> {
    /// Returns the reader for the next level.
    pub(super) fn deeper(self) -> Result<Self, String> {
        let depth = self.depth.checked_sub(1);
        let depth = depth.ok_or_else(|| "proto: the message is nested too deeply".to_owned())?;
        Ok(Self { depth, ..self })
    }

    /// Reads a message into the fields of a struct. As always in protobuf, later occurrences extend
    /// or replace earlier ones.
    pub(super) fn message(
        self,
        of: TypeRef,
        message: &[u8],
        into: &mut Map<String, Value>,
    ) -> Result<(), String> {
        self.deeper()?.embedded(of, &[], message, into)
    }

    /// Reads a message whose fields are those of the struct below `within`: in JSON, the fields of
    /// embedded structs are on the same level.
    fn embedded(
        self,
        of: TypeRef,
        within: &[u32],
        message: &[u8],
        into: &mut Map<String, Value>,
    ) -> Result<(), String> {
        let target = self.types.get(of);
        let Shape::Struct(known) = &target.shape else {
            return Err(format!("proto: {} is not a message", target.go));
        };
        let mut fields = Fields::new(message, target.name());
        while let Some((number, payload)) = fields.next()? {
            let found = known.iter().find_map(|field| {
                let numbers = field.numbers.strip_prefix(within)?;
                let (first, after) = numbers.split_first()?;
                (*first == number).then_some((field, after.is_empty()))
            });
            // Unknown fields come from newer clients and are skipped.
            let Some((field, is_here)) = found else {
                continue;
            };
            if is_here {
                let slot = into.entry(&*field.name).or_insert(Value::Null);
                self.value(field.of, payload, slot, &field.name)?;
            } else {
                let bytes = bytes(payload, &field.name)?;
                let within = [within, &[number]].concat();
                self.deeper()?.embedded(of, &within, bytes, into)?;
            }
        }
        Ok(())
    }

    /// Reads one occurrence of a field. The slot contains the result of earlier ones, or null.
    pub(super) fn value(
        self,
        of: TypeRef,
        payload: Payload<'_>,
        slot: &mut Value,
        name: &str,
    ) -> Result<(), String> {
        let target = self.types.get(of);
        match &target.shape {
            Shape::Pointer(to) => return self.value(*to, payload, slot, name),
            Shape::Struct(_) => {
                return self.message(of, bytes(payload, name)?, object(slot));
            }
            Shape::Slice(elem) if target.wrapped => {
                let items = array(slot);
                let mut fields = Fields::new(bytes(payload, name)?, target.name());
                while let Some((number, payload)) = fields.next()? {
                    if number == 1 {
                        self.items(*elem, payload, items, name)?;
                    }
                }
            }
            Shape::Slice(elem) => return self.items(*elem, payload, array(slot), name),
            Shape::Map(elem) => {
                return self.entry(*elem, bytes(payload, name)?, object(slot), name);
            }
            Shape::Custom(custom) => {
                *slot = special::read(self, *custom, bytes(payload, name)?, name)?;
            }
            Shape::Bytes => *slot = special::base64(bytes(payload, name)?).into(),
            Shape::String => *slot = text(bytes(payload, name)?).into(),
            Shape::Bool => *slot = (varint(payload, name)? != 0).into(),
            Shape::Int64 => *slot = varint(payload, name)?.cast_signed().into(),
            Shape::Int32 => *slot = int32(varint(payload, name)?).into(),
            Shape::Float => {
                let Payload::Fixed64(bits) = payload else {
                    return Err(wrong_form(payload, name));
                };
                *slot = float(f64::from_bits(bits))?;
            }
        }
        Ok(())
    }

    /// Reads one item of a list, or several packed ones.
    fn items(
        self,
        elem: TypeRef,
        payload: Payload<'_>,
        items: &mut Vec<Value>,
        name: &str,
    ) -> Result<(), String> {
        let reader = self.deeper()?;
        let fixed = match self.types.get(elem).shape {
            Shape::Bool | Shape::Int32 | Shape::Int64 => Some(false),
            Shape::Float => Some(true),
            _ => None,
        };
        let mut add = |payload| {
            let mut item = Value::Null;
            reader.value(elem, payload, &mut item, name)?;
            items.push(item);
            Ok(())
        };
        match (fixed, payload) {
            (Some(fixed), Payload::Bytes(bytes)) => {
                packed(bytes, fixed).try_for_each(|payload| add(payload?))
            }
            (_, payload) => add(payload),
        }
    }

    /// Reads one entry of a map: a message with the key and the value.
    fn entry(
        self,
        elem: TypeRef,
        message: &[u8],
        map: &mut Map<String, Value>,
        name: &str,
    ) -> Result<(), String> {
        let reader = self.deeper()?;
        let mut key = String::new();
        let mut value = match self.types.get(elem).shape {
            Shape::Bytes => Value::from(""),
            _ => self.types.zero(elem),
        };
        let mut fields = Fields::new(message, name);
        while let Some((number, payload)) = fields.next()? {
            match number {
                1 => key = text(bytes(payload, name)?),
                2 => {
                    value = Value::Null;
                    reader.value(elem, payload, &mut value, name)?;
                }
                _ => {}
            }
        }
        map.insert(key, value);
        Ok(())
    }
}

fn object(slot: &mut Value) -> &mut Map<String, Value> {
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut().expect("it was converted above")
}

fn array(slot: &mut Value) -> &mut Vec<Value> {
    if !slot.is_array() {
        *slot = Value::Array(Vec::new());
    }
    slot.as_array_mut().expect("it was converted above")
}

pub(super) fn bytes<'a>(payload: Payload<'a>, name: &str) -> Result<&'a [u8], String> {
    match payload {
        Payload::Bytes(bytes) => Ok(bytes),
        other => Err(wrong_form(other, name)),
    }
}

pub(super) fn varint(payload: Payload<'_>, name: &str) -> Result<u64, String> {
    match payload {
        Payload::Varint(number) => Ok(number),
        other => Err(wrong_form(other, name)),
    }
}

/// Truncates larger numbers, as the server does.
pub(super) fn int32(number: u64) -> i32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

fn wrong_form(payload: Payload<'_>, name: &str) -> String {
    format!(
        "proto: wrong wireType = {} for field {name}",
        payload.wire_type()
    )
}

/// Decodes a string. Invalid bytes are replaced, as in JSON.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Converts a float. In JSON, a whole number has no fraction, regardless of its type.
fn float(number: f64) -> Result<Value, String> {
    serde_json::from_str(&number.to_string())
        .map_err(|_| format!("json: unsupported value: {number}"))
}
