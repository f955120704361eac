//! Decoding of request bodies to JSON, with detection of duplicate keys.

use std::fmt;

use kopf_sandbox_schema::stack::on_large_stack;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::DuplicateKeyPolicy;

/// A decoded body.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// Errors of strict decoding: duplicate keys. The last value wins.
    pub complaints: Vec<String>,
}

/// Maximum number of reported duplicates.
const MOST_DUPLICATES: usize = 100;

/// Maximum depth of lists and objects in the JSON parser, and in YAML.
pub const MOST_LEVELS: usize = 127;
/// Depth of YAML that fits on any stack.
const USUAL_LEVELS: usize = 48;

/// Maximum size of all strings of YAML after the expansion of its aliases: above the size of a body.
const MOST_TEXT: usize = 4 << 20;
/// Maximum number of values of YAML that are repeated by aliases.
const MOST_REPEATED: usize = 100_000;

/// Floats represent all integers up to this one.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// Decodes JSON. The error is that of the parser.
pub fn json(bytes: &[u8]) -> Result<Decoded, String> {
    let mut duplicates = Vec::new();
    // Invalid UTF-8 is replaced, as by the real server.
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
    let complaints = duplicates
        .iter()
        .map(|path| format!("duplicate field {path:?}"))
        .collect();
    Ok(Decoded { value, complaints })
}

/// Returns the paths of all keys of a JSON document in document order. Duplicate keys are listed
/// twice.
pub(crate) fn keys_in_order(bytes: &[u8]) -> Vec<String> {
    let mut keys = Vec::new();
    let text = String::from_utf8_lossy(bytes);
    let mut reader = serde_json::Deserializer::from_str(&text);
    let seed = Keys {
        path: &Trail::Root,
        keys: &mut keys,
    };
    // A malformed document was rejected before.
    let _ = seed.deserialize(&mut reader);
    keys
}

/// Decodes the first YAML document. An empty input is an empty object.
pub fn yaml(bytes: &[u8]) -> Result<Decoded, String> {
    let text = String::from_utf8_lossy(bytes);
    let first = first_document(&text);
    if first.trim().is_empty() {
        let value = Value::Object(Map::new());
        return Ok(Decoded {
            value,
            complaints: Vec::new(),
        });
    }
    let (mut value, complaints) = match parse_yaml(first, USUAL_LEVELS) {
        Err(error) if error.contains("Depth") => on_large_stack(|| parse_yaml(first, MOST_LEVELS))?,
        parsed => parsed?,
    };
    if value.is_null() {
        value = Value::Object(Map::new());
    }
    if is_deeper_than(&value, MOST_LEVELS) {
        return Err("yaml: the document is nested too deeply".to_owned());
    }
    Ok(Decoded { value, complaints })
}

/// Parses a document of limited depth. Returns it with its duplicate keys.
fn parse_yaml(text: &str, levels: usize) -> Result<(Value, Vec<String>), String> {
    let options = |duplicates: DuplicateKeyPolicy| {
        serde_saphyr::options! {
            duplicate_keys: duplicates,
            // `defaultMode: 0644` is octal, and common in manifests.
            legacy_octal_numbers: true,
            budget: serde_saphyr::budget! {
                max_depth: levels,
                max_total_scalar_bytes: MOST_TEXT,
            },
            alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MOST_REPEATED },
        }
    };
    let refused =
        match serde_saphyr::from_str_with_options(text, options(DuplicateKeyPolicy::Error)) {
            Ok(value) => return Ok((value, Vec::new())),
            Err(refused) => refused,
        };
    if !refused.to_string().contains("duplicate mapping key") {
        return Err(format!("yaml: {}", found(&refused.to_string())));
    }
    let lenient = options(DuplicateKeyPolicy::LastWins);
    let value = serde_saphyr::from_str_with_options::<Value>(text, lenient)
        .map_err(|error| format!("yaml: {}", found(&error.to_string())))?;
    Ok((value, vec![found(&refused.to_string())]))
}

fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let deeper = |value: &Value| match levels.checked_sub(1) {
        Some(left) => is_deeper_than(value, left),
        None => true,
    };
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(deeper),
        Value::Object(map) => levels == 0 || map.values().any(deeper),
        _ => false,
    }
}

/// Returns the message of the parser without its hints for programmers.
fn found(text: &str) -> String {
    let line = text
        .lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ");
    match line.split_once(": duplicate mapping key: ") {
        Some((place, rest)) => {
            let key = rest.split_once(", set ").map_or(rest, |(key, _)| key);
            let place = place.split_once(" column").map_or(place, |(line, _)| line);
            format!("{place}: key {key:?} already set in map")
        }
        None => line.to_owned(),
    }
}

fn first_document(text: &str) -> &str {
    let text = text.strip_prefix("---\n").unwrap_or(text);
    if text.starts_with("---\n") {
        return "";
    }
    text.split_once("\n---").map_or(text, |(first, _)| first)
}

/// The path of the reader: a list linked through the stack, so that paths cost nothing until
/// needed.
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
        // The real server decodes `1.0` and `1e2` as integers, and so do clients.
        if value.fract() == 0.0 && value.abs() < MOST_EXACT {
            #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
            return Ok(Value::from(value as i64));
        }
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

/// A visitor that collects the keys of a document and drops its values.
struct Keys<'a> {
    path: &'a Trail<'a>,
    keys: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Keys<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for index in 0.. {
            let path = Trail::Index(self.path, index);
            let seed = Keys {
                path: &path,
                keys: self.keys,
            };
            if items.next_element_seed(seed)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(key) = entries.next_key::<String>()? {
            let path = Trail::Key(self.path, &key);
            self.keys.push(path.to_string());
            let seed = Keys {
                path: &path,
                keys: self.keys,
            };
            entries.next_value_seed(seed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn json_and_yaml_have_the_same_depth() {
        for levels in 100..140 {
            let list = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            let of_json = json(list.as_bytes()).is_ok();
            assert_eq!(yaml(list.as_bytes()).is_ok(), of_json, "{levels}");
            let object = format!("{}1{}", "{\"a\": ".repeat(levels), "}".repeat(levels));
            assert_eq!(json(object.as_bytes()).is_ok(), of_json, "{levels}");
            assert_eq!(yaml(object.as_bytes()).is_ok(), of_json, "{levels}");
        }
        let deep = "[".repeat(100_000);
        assert!(yaml(deep.as_bytes()).is_err());
    }

    #[test]
    fn aliases_are_expanded_within_limits() {
        let few = yaml(b"a: &a [1, 2]\nb: [*a, *a]\n").unwrap();
        assert_eq!(few.value["b"], json!([[1, 2], [1, 2]]));
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let below = vec![format!("*a{}", level - 1); 10].join(", ");
            laughs = [&*laughs, &format!("a{level}: &a{level} [{below}]\n")].concat();
        }
        let long = format!(
            "a: &a {}\nb: [{}]\n",
            "x".repeat(900_000),
            ["*a"; 90].join(", ")
        );
        let twice = format!("a: 1\na: 1\n{laughs}");
        for text in [laughs, long, twice] {
            let error = yaml(text.as_bytes()).unwrap_err();
            assert!(error.len() < 300, "{error}");
        }
    }

    #[test]
    fn duplicate_keys_are_reported_and_the_last_value_wins() {
        let decoded = json(br#"{"a":1,"b":[{"c":1,"c":2}],"a":2}"#).unwrap();
        assert_eq!(decoded.value, json!({"a": 2, "b": [{"c": 2}]}));
        assert_eq!(
            decoded.complaints,
            ["duplicate field \"b[0].c\"", "duplicate field \"a\""]
        );
    }

    #[test]
    fn keys_are_listed_in_the_order_of_the_document() {
        let keys = keys_in_order(br#"{"b":[{"c":1,"c":2}],"a":{"z":null},"b":0.5}"#);
        assert_eq!(keys, ["b", "b[0].c", "b[0].c", "a", "a.z", "b"]);
        assert_eq!(keys_in_order(br#"{"a":1,"#), ["a"]);
    }

    #[test]
    fn whole_floats_become_integers() {
        let decoded = json(b"[1.0, 1e2, -3.0, 1.5, 1e300]").unwrap();
        assert_eq!(decoded.value, json!([1, 100, -3, 1.5, 1e300]));
    }

    #[test]
    fn whole_numbers_with_exponents_become_integers() {
        assert_eq!(json(b"[0e0, 2e3]").unwrap().value, json!([0, 2000]));
        assert_eq!(whole(json!([0.0, {"a": 1.5}])), json!([0, {"a": 1.5}]));
    }

    #[test]
    fn malformed_json_is_rejected() {
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
    fn yaml_is_decoded() {
        assert_eq!(
            yaml(b"a: 1\nb: [x]\n").unwrap().value,
            json!({"a": 1, "b": ["x"]})
        );
        assert!(yaml(b"a: [").is_err());
        assert_eq!(yaml(b"").unwrap().value, json!({}));
        assert_eq!(
            yaml(b"---\na: 1\n---\na: 2\n").unwrap().value,
            json!({"a": 1})
        );
        let twice = yaml(b"a: 1\na: 2\n").unwrap();
        assert_eq!(twice.value, json!({"a": 2}));
        assert_eq!(twice.complaints, ["line 2: key \"a\" already set in map"]);
        assert_eq!(yaml(b"# words\n").unwrap().value, json!({}));
        assert_eq!(yaml(b"---\n---\na: 1\n").unwrap().value, json!({}));
    }

    /// Converts whole floats to integers: an intended difference.
    fn whole(value: Value) -> Value {
        match value {
            Value::Number(number) if number.is_f64() => json(number.to_string().as_bytes())
                .map_or(Value::Number(number), |decoded| decoded.value),
            Value::Array(items) => items.into_iter().map(whole).collect(),
            Value::Object(fields) => {
                let fields = fields.into_iter();
                fields.map(|(key, value)| (key, whole(value))).collect()
            }
            other => other,
        }
    }

    proptest! {
        #[test]
        fn accepts_the_same_json_as_serde_json(text in r#"[\[\]{}:,"a-c0-9\\ ntrue]{0,40}"#) {
            let ours = json(text.as_bytes()).ok().map(|decoded| decoded.value);
            let theirs = serde_json::from_str::<Value>(&text).ok();
            prop_assert_eq!(ours, theirs.map(whole));
        }
    }
}
