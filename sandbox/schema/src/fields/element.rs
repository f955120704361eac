//! One step of a path: a field, an item of a list by its keys, or an item of a set by its value.

use std::fmt;

use serde_json::{Map, Value};

/// A step of a path in the notation of `fieldsV1`: `f:name`, `k:{"name":"x"}`, `v:"x"` or `i:0`.
///
/// Keys and values are in canonical JSON, so that equal steps are equal strings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element(Box<str>);

impl Element {
    /// Returns the step to a field of a map or struct.
    pub fn field(name: &str) -> Self {
        Self(format!("f:{name}").into())
    }

    /// Returns the step to the item of a list that has these values of its keys.
    pub fn keys(keys: Map<String, Value>) -> Self {
        Self(format!("k:{}", Value::Object(keys)).into())
    }

    /// Returns the step to an item of a list of scalars.
    pub fn value(value: &Value) -> Self {
        Self(format!("v:{value}").into())
    }

    /// Parses the notation of `fieldsV1`. `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self(text.into())),
            "v" => serde_json::from_str(rest)
                .ok()
                .map(|value| Self::value(&value)),
            "k" => serde_json::from_str(rest).ok().map(Self::keys),
            "i" => rest.parse::<i64>().ok().map(|_| Self(text.into())),
            _ => None,
        }
    }

    /// Returns the notation of `fieldsV1`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the field, if the step leads to one.
    pub(crate) fn field_name(&self) -> Option<&str> {
        self.0.strip_prefix("f:")
    }

    /// Returns `true` if the step leads to an item by its keys.
    pub(crate) fn is_keys(&self) -> bool {
        self.0.starts_with("k:")
    }
}

/// Formats the step as in error messages: `.name`, `[name="x"]`, `[="x"]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.field_name() {
            return write!(f, ".{name}");
        }
        if let Some(keys) = self.0.strip_prefix("k:") {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> = keys
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            return write!(f, "[{}]", keys.join(","));
        }
        match self.0.split_once(':') {
            Some(("v", value)) => write!(f, "[={value}]"),
            Some((_, other)) => write!(f, "[{other}]"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_canonical() {
        let spaced = Element::parse(r#"k:{"protocol" : "TCP", "port":80}"#).unwrap();
        assert_eq!(spaced.as_str(), r#"k:{"port":80,"protocol":"TCP"}"#);
        assert_eq!(spaced.to_string(), r#"[port=80,protocol="TCP"]"#);
        assert_eq!(Element::parse("v: \"a\"").unwrap().to_string(), "[=\"a\"]");
        assert_eq!(Element::field("a.b/c").to_string(), ".a.b/c");
        assert_eq!(Element::parse("i:3").unwrap().to_string(), "[3]");
    }

    #[test]
    fn malformed_elements_are_rejected() {
        for bad in ["", "f", "x:1", "k:[]", "k:{", "v:", "i:x"] {
            assert_eq!(Element::parse(bad), None, "{bad}");
        }
    }
}
