//! Parsing of reviews: the most expensive part of a trivial review.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::key_order::{self, Ordered};

/// Fields of requests that no handler gets.
const UNUSED: [&str; 4] = ["kind", "options", "requestKind", "requestResource"];

/// Reason why the body of a review cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The body is nested too deeply. The review should be denied: see
    /// [`Unreadable::TooDeep`](super::Unreadable::TooDeep).
    #[error("the review is nested too deeply: {0}")]
    TooDeep(#[source] serde_json::Error),
    /// The body is not JSON.
    #[error("the review is not valid JSON: {0}")]
    Invalid(#[source] serde_json::Error),
}

impl From<serde_json::Error> for ParseError {
    fn from(error: serde_json::Error) -> Self {
        // There is no other way to tell it from syntax errors.
        if error.to_string().starts_with("recursion limit exceeded") {
            Self::TooDeep(error)
        } else {
            Self::Invalid(error)
        }
    }
}

/// Parses a review without the fields `kind`, `requestKind`, `requestResource` and `options` of the
/// request, which a [`Review`](super::Review) does not have. The other fields are kept as sent.
///
/// ```
/// use kopf_core::admission::parse;
/// use serde_json::json;
///
/// let text = br#"{"request": {"uid": "x", "kind": {"kind": "Pod"}, "object": {"kind": "Pod"}}}"#;
/// let review = json!({"request": {"uid": "x", "object": {"kind": "Pod"}}});
/// assert_eq!(parse(text)?, review);
/// # Ok::<_, kopf_core::admission::ParseError>(())
/// ```
pub fn parse(text: &[u8]) -> Result<Value, ParseError> {
    // Validating UTF-8 once is faster than string by string.
    let Ok(text) = str::from_utf8(text) else {
        // This fails as well, with the position of the error.
        return Ok(serde_json::from_slice(text)?);
    };
    let mut reader = serde_json::Deserializer::from_str(text);
    let review = Place::Review.deserialize(&mut reader)?;
    reader.end()?;
    Ok(review)
}

/// Parses a review with all its fields, and the order of their keys.
pub fn parse_in_order(text: &[u8]) -> Result<Ordered, ParseError> {
    Ok(key_order::parse(text)?)
}

/// Position of the reader in the review.
#[derive(Clone, Copy)]
enum Place {
    Review,
    Request,
}

impl<'de> DeserializeSeed<'de> for Place {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let value = match self {
                Self::Review if key == "request" => fields.next_value_seed(Self::Request)?,
                Self::Request if UNUSED.contains(&key.as_str()) => {
                    fields.next_value::<Unused>()?;
                    continue;
                }
                Self::Review | Self::Request => fields.next_value()?,
            };
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }

    // Values other than objects are rejected later, by the name of the field.

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<Value, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(elements))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// A skipped value. It is validated as strictly as the rest, unlike `IgnoredAny`.
struct Unused;

impl<'de> Deserialize<'de> for Unused {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Unused {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Place::Review.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        while fields.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self, A::Error> {
        while elements.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self, E> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kept_fields_are_as_sent() {
        for text in [
            r#"{"kind": "AdmissionReview", "options": 1, "request": {}}"#,
            r#"{"request": {"object": {"kind": "X", "options": {"a": [1, -2, 3.5, null]}}}}"#,
            r#"{"request": {"oldObject": null, "resource": {"kind": "x"}, "new": "\u00fc\n"}}"#,
            r#"{"other": {"kind": "x", "request": {"kind": "y"}}}"#,
            r#"{"request": 1, "request": {"uid": "last"}}"#,
            r#"{"request": [{"kind": "x"}, true]}"#,
            r#"{"request": "kind"}"#,
            r#"{"request": null}"#,
            r#"{"request": false}"#,
            r#"{"request": -1}"#,
            r#"{"request": 18446744073709551615}"#,
            r#"{"request": 0.1}"#,
            " [] ",
            "\"kind\"",
            "null",
            "{}",
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text.as_bytes()).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn unused_fields_are_skipped() {
        let request = json!({
            "uid": "x", "kind": {"kind": "X"}, "requestKind": {"kind": "X"},
            "options": {"a": [1, -2, 0.5, null, true, {}, "ü"]},
            "requestResource": {"resource": "xs"}, "resource": {"resource": "xs"},
        });
        let review = json!({"kind": "AdmissionReview", "request": request});
        let expected = json!({
            "kind": "AdmissionReview",
            "request": {"uid": "x", "resource": {"resource": "xs"}},
        });
        assert_eq!(parse(review.to_string().as_bytes()).unwrap(), expected);
    }

    #[test]
    fn errors_are_those_of_serde_json() {
        let deep = format!("{{\"request\": {}", "[".repeat(1000));
        let unused_and_deep = format!("{{\"request\": {{\"kind\": {}", "[".repeat(1000));
        let texts: [&[u8]; 14] = [
            b"",
            b"{",
            b"{\"request\"}",
            b"{} {}",
            b"{\"request\": {\"kind\": }}",
            b"{\"request\": {\"kind\": {\"a\": 1,}}}",
            b"{\"request\": {\"a\": \"\\ud800\"}}",
            b"{\"request\": {\"kind\": {\"a\": [\"\\ud800\"]}}}",
            b"{\"request\": {\"kind\": {\"a\": 1e999}}}",
            b"{\"request\": {\"kind\": {1: 2}}}",
            b"{\"request\": {\"kind\": [nul]}}",
            unused_and_deep.as_bytes(),
            b"{\n\"request\": {\"a\": \"\xFF\"}}",
            deep.as_bytes(),
        ];
        for text in texts {
            let usual = serde_json::from_slice::<Value>(text).unwrap_err();
            let is_deep = usual.to_string().contains("recursion limit");
            match parse(text).unwrap_err() {
                ParseError::TooDeep(error) => {
                    assert!(is_deep, "{usual}");
                    assert_eq!(error.to_string(), usual.to_string());
                }
                ParseError::Invalid(error) => {
                    assert!(!is_deep, "{usual}");
                    assert_eq!(error.to_string(), usual.to_string());
                }
            }
        }
    }
}
