//! From the bytes of a request to a JSON value, with the keys that were given twice.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A decoded body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// Paths of keys that occur more than once, e.g. `spec.replicas`; the last value counts.
    pub(crate) duplicates: Vec<String>,
}

/// How many duplicates are named; a client that sends more has enough to look at.
const MOST_DUPLICATES: usize = 100;

/// Reads JSON. The error is the parser's.
pub(crate) fn json(bytes: &[u8]) -> Result<Decoded, String> {
    let mut duplicates = Vec::new();
    // Stray bytes in texts are replaced, as the real server does it, not refused.
    let text = String::from_utf8_lossy(bytes);
    let mut reader = serde_json::Deserializer::from_str(&text);
    let seed = Seed {
        path: &Trail::Root,
        duplicates: &mut duplicates,
    };
    let value = seed
        .deserialize(&mut reader)
        .map_err(|error| error.to_string())?;
    reader.end().map_err(|error| error.to_string())?;
    Ok(Decoded { value, duplicates })
}

/// Reads one YAML document.
pub(crate) fn yaml(bytes: &[u8]) -> Result<Decoded, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let value: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    Ok(Decoded {
        value,
        duplicates: Vec::new(),
    })
}

/// Where the reader is: a list linked through the stack, so that paths cost nothing until needed.
enum Trail<'a> {
    Root,
    Key(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, key) => f.write_str(key),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

struct Seed<'a> {
    path: &'a Trail<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = Trail::Index(self.path, list.len());
            let seed = Seed {
                path: &path,
                duplicates: self.duplicates,
            };
            match items.next_element_seed(seed)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = Trail::Key(self.path, &key);
            let seed = Seed {
                path: &path,
                duplicates: self.duplicates,
            };
            let value = entries.next_value_seed(seed)?;
            if map.contains_key(&key) {
                if self.duplicates.len() >= MOST_DUPLICATES {
                    return Err(A::Error::custom("too many duplicate fields"));
                }
                self.duplicates
                    .push(Trail::Key(self.path, &key).to_string());
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicates_are_named_and_the_last_value_counts() {
        let decoded = json(br#"{"a":1,"b":[{"c":1,"c":2}],"a":2}"#).unwrap();
        assert_eq!(decoded.value, json!({"a": 2, "b": [{"c": 2}]}));
        assert_eq!(decoded.duplicates, ["b[0].c", "a"]);
    }

    #[test]
    fn garbage_is_refused() {
        for garbage in [
            &b"{"[..],
            b"{} {}",
            b"",
            b"\xff\xfe",
            b"nul",
            &[b'['; 5_000],
        ] {
            assert!(json(garbage).is_err(), "{garbage:?}");
        }
    }

    #[test]
    fn yaml_is_read() {
        assert_eq!(
            yaml(b"a: 1\nb: [x]\n").unwrap().value,
            json!({"a": 1, "b": ["x"]})
        );
        assert!(yaml(b"a: [").is_err());
    }

    proptest! {
        #[test]
        fn reads_what_serde_json_reads(text in r#"[\[\]{}:,"a-c0-9\\ .ntrue]{0,40}"#) {
            let ours = json(text.as_bytes()).ok().map(|decoded| decoded.value);
            let theirs = serde_json::from_str::<Value>(&text).ok();
            prop_assert_eq!(ours, theirs);
        }
    }
}
