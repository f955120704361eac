//! Serialisation of patches: JSON without the fields that are `None`.
//!
//! A merge-patch removes fields by nulls, so a `None` of a partly filled type would erase a field.
//! `Option::None` and a JSON null are different calls of a serialiser, and only the former is left
//! out here.

use serde::{Serialize, ser};
use serde_json::value::Serializer as Plain;
use serde_json::{Error, Map, Value};

/// Serialises a value. `None` for `Option::None`; inside of lists, it is null.
pub(super) fn present(value: impl Serialize) -> Result<Option<Value>, Error> {
    value.serialize(Present)
}

struct Present;

/// Forwards the serialisation of values that contain no others.
macro_rules! plain {
    ($($method:ident($($argument:ident: $T:ty),*);)*) => {$(
        fn $method(self $(, $argument: $T)*) -> Result<Self::Ok, Error> {
            Plain.$method($($argument),*).map(Some)
        }
    )*};
}

impl ser::Serializer for Present {
    type Ok = Option<Value>;
    type Error = Error;
    type SerializeSeq = Items;
    type SerializeTuple = Items;
    type SerializeTupleStruct = Items;
    type SerializeTupleVariant = Items;
    type SerializeMap = Fields;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    plain! {
        serialize_bool(value: bool);
        serialize_i8(value: i8);
        serialize_i16(value: i16);
        serialize_i32(value: i32);
        serialize_i64(value: i64);
        serialize_i128(value: i128);
        serialize_u8(value: u8);
        serialize_u16(value: u16);
        serialize_u32(value: u32);
        serialize_u64(value: u64);
        serialize_u128(value: u128);
        serialize_f32(value: f32);
        serialize_f64(value: f64);
        serialize_char(value: char);
        serialize_str(value: &str);
        serialize_bytes(value: &[u8]);
        serialize_unit();
        serialize_unit_struct(name: &'static str);
        serialize_unit_variant(name: &'static str, index: u32, variant: &'static str);
    }

    fn serialize_none(self) -> Result<Self::Ok, Error> {
        Ok(None)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Self::Ok, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Self::Ok, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Self::Ok, Error> {
        let mut fields = Fields::of_variant(None);
        fields.insert(variant.to_owned(), value)?;
        Ok(Some(fields.finish()))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items, Error> {
        Ok(Items::of_variant(None))
    }

    fn serialize_tuple(self, _: usize) -> Result<Items, Error> {
        Ok(Items::of_variant(None))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items, Error> {
        Ok(Items::of_variant(None))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items, Error> {
        Ok(Items::of_variant(Some(variant)))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Fields, Error> {
        Ok(Fields::of_variant(None))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields, Error> {
        Ok(Fields::of_variant(None))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Fields, Error> {
        Ok(Fields::of_variant(Some(variant)))
    }
}

/// Wraps the content of a variant of an enum.
fn wrap(variant: Option<&'static str>, content: Value) -> Value {
    match variant {
        Some(variant) => Value::Object(Map::from_iter([(variant.to_owned(), content)])),
        None => content,
    }
}

/// A list.
struct Items {
    variant: Option<&'static str>,
    list: Vec<Value>,
}

impl Items {
    fn of_variant(variant: Option<&'static str>) -> Self {
        let list = Vec::new();
        Self { variant, list }
    }

    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.list.push(present(value)?.unwrap_or_default());
        Ok(())
    }
}

macro_rules! items {
    ($($Trait:ident::$method:ident,)*) => {$(
        impl ser::$Trait for Items {
            type Ok = Option<Value>;
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.push(value)
            }

            fn end(self) -> Result<Option<Value>, Error> {
                Ok(Some(wrap(self.variant, Value::Array(self.list))))
            }
        }
    )*};
}

items! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

/// An object.
struct Fields {
    variant: Option<&'static str>,
    /// The key of the next value of a map.
    key: Option<String>,
    map: Map<String, Value>,
}

impl Fields {
    fn of_variant(variant: Option<&'static str>) -> Self {
        Self {
            variant,
            key: None,
            map: Map::new(),
        }
    }

    fn insert<T: Serialize + ?Sized>(&mut self, key: String, value: &T) -> Result<(), Error> {
        if let Some(value) = present(value)? {
            self.map.insert(key, value);
        }
        Ok(())
    }

    fn finish(self) -> Value {
        wrap(self.variant, Value::Object(self.map))
    }
}

impl ser::SerializeMap for Fields {
    type Ok = Option<Value>;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        // The keys of JSON are texts: numbers and booleans are converted like by `serde_json`.
        let mut map = ser::Serializer::serialize_map(Plain, None)?;
        ser::SerializeMap::serialize_entry(&mut map, key, &())?;
        if let Value::Object(map) = ser::SerializeMap::end(map)? {
            self.key = map.into_iter().next().map(|(key, _)| key);
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        match self.key.take() {
            Some(key) => self.insert(key, value),
            None => Err(ser::Error::custom("a value without a key")),
        }
    }

    fn end(self) -> Result<Option<Value>, Error> {
        Ok(Some(self.finish()))
    }
}

macro_rules! fields {
    ($($Trait:ident,)*) => {$(
        impl ser::$Trait for Fields {
            type Ok = Option<Value>;
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.insert(key.to_owned(), value)
            }

            fn end(self) -> Result<Option<Value>, Error> {
                Ok(Some(self.finish()))
            }
        }
    )*};
}

fields! {
    SerializeStruct,
    SerializeStructVariant,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    struct Thing {
        name: Option<&'static str>,
        size: Option<u32>,
        inner: Option<Box<Self>>,
        list: Vec<Option<u8>>,
        mode: Mode,
    }

    #[derive(Serialize)]
    enum Mode {
        Plain,
        Wrapped(Option<u8>),
        Pair(Option<u8>, u8),
        Struct { a: Option<u8>, b: u8 },
    }

    #[test]
    fn fields_without_values_are_left_out() {
        let inner = Thing {
            name: None,
            size: Some(1),
            inner: None,
            list: vec![Some(1), None],
            mode: Mode::Struct { a: None, b: 2 },
        };
        let outer = Thing {
            name: Some("outer"),
            size: None,
            inner: Some(Box::new(inner)),
            list: Vec::new(),
            mode: Mode::Plain,
        };
        let expected = json!({
            "name": "outer", "list": [], "mode": "Plain",
            "inner": {"size": 1, "list": [1, null], "mode": {"Struct": {"b": 2}}},
        });
        assert_eq!(present(outer).unwrap(), Some(expected));
    }

    #[test]
    fn other_values_are_those_of_serde_json() {
        for mode in [Mode::Wrapped(Some(1)), Mode::Pair(None, 2)] {
            let plain = serde_json::to_value(&mode).unwrap();
            assert_eq!(present(mode).unwrap(), Some(plain));
        }
        let json = json!({"null": null, "list": [null, 1.5, "x"], "nested": {"null": null}});
        assert_eq!(present(&json).unwrap(), Some(json));
        let numbered = BTreeMap::from([(1, 'a'), (2, 'b')]);
        assert_eq!(
            present(numbered).unwrap(),
            Some(json!({"1": "a", "2": "b"}))
        );
        assert_eq!(present(()).unwrap(), Some(Value::Null));
        assert_eq!(present(None::<u8>).unwrap(), None);
        assert!(present(BTreeMap::from([((1, 2), 3)])).is_err());
    }
}
