//! Parsing of objects without unneeded fields.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor, value,
};
use serde_json::{Map, Value};

use super::ManagedFields;
use crate::key_order::{AnyValue, Ordered};
use crate::lenient::{self, Read};

/// Parses exactly one object, without its `metadata.managedFields`.
pub(super) fn object(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = deserializer.deserialize_map(ObjectVisitor)?;
    deserializer.end()?;
    Ok(value)
}

/// Parses exactly one object, with all its fields and the order of its keys.
pub(super) fn whole_object(bytes: &[u8]) -> Result<Ordered, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = deserializer.deserialize_map(AnyValue)?;
    deserializer.end()?;
    Ok(read)
}

/// Parses an object that strict parsing rejects, and counts the omitted values.
pub(super) fn lenient_object(bytes: &[u8], managed: ManagedFields) -> Option<(Value, usize)> {
    let Read { mut value, cut } = lenient::read(bytes)?;
    let metadata = value.as_object_mut()?.get_mut("metadata");
    if let Some(metadata) = metadata.and_then(Value::as_object_mut)
        && managed == ManagedFields::Drop
    {
        metadata.remove("managedFields");
    }
    Some((value, cut))
}

/// Parses only the selected top-level fields of an object, and the relevant metadata.
pub(super) fn part(
    bytes: &[u8],
    chosen: &dyn Fn(&str) -> bool,
) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = deserializer.deserialize_map(PartVisitor(chosen))?;
    deserializer.end()?;
    Ok(value)
}

struct PartVisitor<'a>(&'a dyn Fn(&str) -> bool);

impl<'de> Visitor<'de> for PartVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<Cow<'de, str>>()? {
            if self.0(&key) {
                let value = if key == "metadata" {
                    access.next_value_seed(Metadata)?
                } else {
                    access.next_value()?
                };
                map.insert(key.into_owned(), value);
            } else if key == "metadata" {
                let kept: KeptMetadata = access.next_value()?;
                map.insert("metadata".to_owned(), kept.into_value());
            } else {
                access.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Value::Object(map))
    }
}

/// The metadata that identify versions and lives of an object, and those that handlers react to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeptMetadata {
    #[serde(default)]
    resource_version: Value,
    #[serde(default)]
    deletion_timestamp: Value,
    #[serde(default)]
    finalizers: Value,
    #[serde(default)]
    generation: Value,
    #[serde(default)]
    labels: Value,
    #[serde(default)]
    annotations: Value,
    #[serde(default)]
    owner_references: Value,
}

impl KeptMetadata {
    fn into_value(self) -> Value {
        let fields = [
            ("resourceVersion", self.resource_version),
            ("deletionTimestamp", self.deletion_timestamp),
            ("finalizers", self.finalizers),
            ("generation", self.generation),
            ("labels", self.labels),
            ("annotations", self.annotations),
            ("ownerReferences", self.owner_references),
        ];
        let present = fields.into_iter().filter(|(_, value)| !value.is_null());
        present
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }
}

/// A visitor of the top level of an object.
struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = if key == "metadata" {
                access.next_value_seed(Metadata)?
            } else {
                access.next_value()?
            };
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// `metadata` of any type, without `managedFields`.
struct Metadata;

impl<'de> DeserializeSeed<'de> for Metadata {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Metadata {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key_seed(MetadataKey)? {
            match key {
                Some(key) => drop(map.insert(key, access.next_value()?)),
                None => drop(access.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Value::Object(map))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<Value, A::Error> {
        Value::deserialize(value::SeqAccessDeserializer::new(access)).map_err(A::Error::custom)
    }
}

/// A key of `metadata`; `None` for `managedFields`, without an allocation.
struct MetadataKey;

impl<'de> DeserializeSeed<'de> for MetadataKey {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for MetadataKey {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok((key != "managedFields").then(|| key.to_owned()))
    }
}
