//! Decoding of objects of built-in kinds, as by the server's JSON decoder.
//!
//! The result is the JSON that the server would serialise after decoding: without unknown fields,
//! nulls, and zero values that the type omits, and with quantities, times and binary data in
//! canonical form. Defaults are not added here.

use super::table::{Custom, Shape, Type, TypeRef, TypeTable};
use super::{bytes, quantity, timestamp};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Maximum number of reported unknown fields, which bounds the size of responses.
const MAX_UNKNOWN: usize = 100;

/// An object that matches its type.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    pub object: Value,
    /// Paths of the dropped fields, e.g. `spec.template.foo`. The request's `fieldValidation`
    /// determines their treatment.
    pub unknown: Vec<String>,
}

/// The error of an object that does not match its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Mismatch {
    /// The message of the server's decoder, e.g. `json: cannot unmarshal string into Go struct
    /// field DeploymentSpec.spec.replicas of type int32`.
    pub text: String,
    /// The message after a strategic merge patch, whose result the server converts instead of
    /// decoding, e.g. `cannot restore slice from string`.
    pub converted: String,
}

impl Mismatch {
    /// Returns the error of a type with its own decoder.
    fn own(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            converted: text.clone(),
            text,
        }
    }
}

impl TypeTable {
    /// Decodes an object of a kind.
    pub fn check(&self, root: TypeRef, mut object: Value) -> Result<Checked, Mismatch> {
        let mut decoder = Decoder {
            table: self,
            path: String::new(),
            fields: Vec::new(),
            within: None,
            unknown: Vec::new(),
            strict: true,
        };
        if object.is_null() {
            object = Value::Object(Map::new());
        }
        decoder.value(root, &mut object)?;
        Ok(Checked {
            object,
            unknown: decoder.unknown,
        })
    }

    /// Returns the JSON of an unset value.
    pub fn zero(&self, of: TypeRef) -> Value {
        match self.get(of).shape {
            Shape::Struct(_) => Value::Object(Map::new()),
            Shape::String => Value::from(""),
            Shape::Bool => Value::from(false),
            Shape::Int32 | Shape::Int64 | Shape::Float | Shape::Custom(Custom::IntOrString) => {
                Value::from(0)
            }
            Shape::Custom(Custom::Quantity) => Value::from("0"),
            Shape::Pointer(_)
            | Shape::Slice(_)
            | Shape::Map(_)
            | Shape::Bytes
            | Shape::Custom(_) => Value::Null,
        }
    }
}

impl TypeTable {
    /// Returns the JSON of an unset struct: the fields that are never omitted.
    pub fn empty(&self, of: TypeRef) -> Value {
        let target = self.get(self.target(of));
        let Shape::Struct(fields) = &target.shape else {
            return self.zero(of);
        };
        let shown = fields.iter().filter(|field| field.shown);
        let members = shown.map(|field| {
            let value = match self.get(field.of).shape {
                Shape::Struct(_) => self.empty(field.of),
                _ => self.zero(field.of),
            };
            (field.name.to_string(), value)
        });
        Value::Object(members.collect())
    }
}

struct Decoder<'t> {
    table: &'t TypeTable,
    /// The path for messages about unknown fields.
    path: String,
    /// The path for messages about wrong types: without indices and map keys.
    fields: Vec<&'t str>,
    within: Option<&'t Type>,
    unknown: Vec<String>,
    strict: bool,
}

impl<'t> Decoder<'t> {
    fn value(&mut self, of: TypeRef, value: &mut Value) -> Result<(), Mismatch> {
        let target = self.table.get(of);
        match (&target.shape, &mut *value) {
            (Shape::Pointer(to), _) => return self.value(*to, value),
            (Shape::Custom(custom), _) => return self.custom(*custom, value),
            (Shape::Struct(_), Value::Object(map)) => return self.object(target, map),
            (Shape::Map(elem), Value::Object(map)) => {
                for (key, value) in map.iter_mut() {
                    let length = self.enter(key);
                    self.element(*elem, value)?;
                    self.path.truncate(length);
                }
            }
            (Shape::Slice(elem), Value::Array(items)) => {
                for (index, value) in items.iter_mut().enumerate() {
                    let length = self.path.len();
                    // Writing to a string cannot fail.
                    let _ = write!(self.path, "[{index}]");
                    self.element(*elem, value)?;
                    self.path.truncate(length);
                }
            }
            (Shape::Bytes, Value::String(text)) => {
                *text = bytes::canonical(text).map_err(|text| Mismatch {
                    converted: format!("error decoding from json: {text}"),
                    text,
                })?;
            }
            (Shape::String, Value::String(_))
            | (Shape::Bool, Value::Bool(_))
            | (Shape::Float, Value::Number(_)) => {}
            (Shape::Int64, Value::Number(number)) if number.is_i64() => {}
            (Shape::Int32, Value::Number(number)) if is_int32(number) => {}
            (_, value) => return Err(self.mismatch(value, target)),
        }
        Ok(())
    }

    fn object(&mut self, of: &'t Type, map: &mut Map<String, Value>) -> Result<(), Mismatch> {
        let mut failed = None;
        map.retain(|key, value| {
            if failed.is_some() {
                return true;
            }
            let Some(field) = of.field(key) else {
                self.note_unknown(key);
                return false;
            };
            if value.is_null() {
                return false;
            }
            let length = self.enter(key);
            let depth = self.fields.len();
            let outer = self.within.replace(of);
            self.fields.extend(field.via.iter().map(|name| &**name));
            self.fields.push(&field.name);
            if let Err(error) = self.value(field.of, value) {
                failed = Some(error);
            }
            self.within = outer;
            self.fields.truncate(depth);
            self.path.truncate(length);
            let shape = &self.table.get(field.of).shape;
            if !is_empty(shape, value) {
                return true;
            }
            // The binary encoding does not distinguish between empty and absent.
            if shape.is_nullable() && &*of.package != "apiextensions/v1" {
                *value = Value::Null;
            }
            !field.omit_empty
        });
        failed.map_or(Ok(()), Err)
    }

    /// Decodes an element of a list or map: unlike a field, it is not omitted when it is null.
    fn element(&mut self, of: TypeRef, value: &mut Value) -> Result<(), Mismatch> {
        if value.is_null() {
            *value = self.table.zero(of);
            return Ok(());
        }
        self.value(of, value)
    }

    fn custom(&mut self, custom: Custom, value: &mut Value) -> Result<(), Mismatch> {
        match (custom, &mut *value) {
            (Custom::Raw, _)
            | (Custom::IntOrString, Value::String(_))
            | (Custom::SchemaOrBool(_), Value::Bool(_)) => {}
            (Custom::Time, Value::String(text)) => {
                *text = timestamp::canonical(text, timestamp::Precision::Seconds)
                    .map_err(Mismatch::own)?;
            }
            (Custom::MicroTime, Value::String(text)) => {
                *text = timestamp::canonical(text, timestamp::Precision::Micros)
                    .map_err(Mismatch::own)?;
            }
            (Custom::Time | Custom::MicroTime, value) => {
                return Err(self.scalar_mismatch(value, "string"));
            }
            (Custom::Quantity, _) => {
                let canonical = match &*value {
                    Value::String(text) => quantity::canonical(text),
                    other => quantity::canonical(&other.to_string()),
                };
                *value = canonical.map_err(Mismatch::own)?.into();
            }
            (Custom::IntOrString, Value::Number(number)) if is_int32(number) => {}
            (Custom::IntOrString, value) => return Err(self.scalar_mismatch(value, "int32")),
            (
                Custom::SchemaOrBool(schema)
                | Custom::SchemaOrArray(schema)
                | Custom::SchemaOrStrings(schema),
                Value::Object(_),
            ) => return self.lenient(schema, value),
            (Custom::SchemaOrArray(schema), Value::Array(items)) => {
                for item in items {
                    self.lenient(schema, item)?;
                }
            }
            (Custom::SchemaOrStrings(_), Value::Array(items)) => {
                if let Some(item) = items.iter().find(|item| !item.is_string()) {
                    return Err(self.scalar_mismatch(item, "string"));
                }
            }
            (Custom::SchemaOrBool(_), _) => {
                return Err(Mismatch::own("boolean or JSON schema expected"));
            }
            // Other values are ignored.
            (Custom::SchemaOrArray(_) | Custom::SchemaOrStrings(_), _) => *value = Value::Null,
        }
        Ok(())
    }

    /// Decodes a type with its own decoder: there the server does not detect unknown fields.
    fn lenient(&mut self, of: TypeRef, value: &mut Value) -> Result<(), Mismatch> {
        let strict = std::mem::replace(&mut self.strict, false);
        let result = self.element(of, value);
        self.strict = strict;
        result
    }

    /// Extends the path by a key. Returns the previous length of the path.
    fn enter(&mut self, key: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        length
    }

    fn note_unknown(&mut self, key: &str) {
        if self.strict && self.unknown.len() < MAX_UNKNOWN {
            let length = self.enter(key);
            self.unknown.push(self.path.clone());
            self.path.truncate(length);
        }
    }

    fn mismatch(&self, value: &Value, target: &Type) -> Mismatch {
        let kind = go_kind(value);
        let converted = match (&target.shape, value) {
            (Shape::Map(_), _) => format!("cannot restore map from {kind}"),
            (Shape::Slice(_) | Shape::Bytes, _) => format!("cannot restore slice from {kind}"),
            (Shape::Struct(_), _) => format!("cannot restore struct from: {kind}"),
            // Go converts between numbers and strings, but not here.
            (Shape::String, Value::Number(number)) if number.is_i64() => {
                format!("cannot convert {kind} to {}", target.go)
            }
            (Shape::Int32 | Shape::Int64, Value::Number(_)) => {
                format!("cannot convert {kind} to {}", target.go)
            }
            (shape, _) => format!("unrecognized type: {}", shape.go_kind()),
        };
        Mismatch {
            text: self.scalar_mismatch(value, &target.go).text,
            converted,
        }
    }

    /// Returns the error of a value that does not match a Go type.
    fn scalar_mismatch(&self, value: &Value, go: &str) -> Mismatch {
        let what = match value {
            // For numbers that are out of range, the message contains the value.
            Value::Number(number) if matches!(go, "int32" | "int64") => format!("number {number}"),
            other => kind_of(other).to_owned(),
        };
        let converted = format!("json: cannot unmarshal {what} into Go value of type {go}");
        let text = match self.within {
            Some(within) => format!(
                "json: cannot unmarshal {what} into Go struct field {}.{} of type {go}",
                within.name(),
                self.fields.join(".")
            ),
            None => converted.clone(),
        };
        Mismatch { text, converted }
    }
}

/// Returns `true` if `omitempty` omits the value. Structs and targets of pointers are never
/// omitted.
fn is_empty(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::Slice(_), Value::Array(items)) => items.is_empty(),
        (Shape::Map(_), Value::Object(map)) => map.is_empty(),
        (Shape::String | Shape::Bytes, Value::String(text)) => text.is_empty(),
        (Shape::Bool, Value::Bool(set)) => !set,
        (Shape::Int32 | Shape::Int64 | Shape::Float, Value::Number(number)) => {
            number.as_f64() == Some(0.0)
        }
        _ => false,
    }
}

fn is_int32(number: &serde_json::Number) -> bool {
    number
        .as_i64()
        .is_some_and(|number| i32::try_from(number).is_ok())
}

/// Returns the name of a JSON type in messages of the decoder.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the kind of the Go value that a JSON value becomes.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
