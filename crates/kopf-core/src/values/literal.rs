//! Formatting of values as Python literals.
//!
//! Log lines such as `Updating diff: (('change', ('spec', 'field'), 1, 2),)` are read by people and
//! scripts, so they keep the format of the original. They are never parsed or stored.

use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::encoding::python_float;

/// A value formatted as a Python literal: `{'a': None, 'b': [True, 1.0]}`.
///
/// ```
/// use kopf_core::literal::Literal;
///
/// let value = serde_json::json!({"a": null, "b": ["it's", true]});
/// assert_eq!(Literal(&value).to_string(), r#"{'a': None, 'b': ["it's", True]}"#);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Literal<'a>(pub &'a Value);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("None"),
            Value::Bool(true) => f.write_str("True"),
            Value::Bool(false) => f.write_str("False"),
            Value::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() => f.write_str(&python_float(float)),
                _ => write!(f, "{number}"),
            },
            Value::String(text) => Text(text).fmt(f),
            Value::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    Literal(item).fmt(f)?;
                }
                f.write_str("]")
            }
            Value::Object(map) => {
                f.write_str("{")?;
                for (index, (key, value)) in map.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    write!(f, "{}: {}", Text(key), Literal(value))?;
                }
                f.write_str("}")
            }
        }
    }
}

/// A string formatted as a Python literal: `'text'`.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = if self.0.contains('\'') && !self.0.contains('"') {
            '"'
        } else {
            '\''
        };
        f.write_char(quote)?;
        for char in self.0.chars() {
            match char {
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\\' => f.write_str("\\\\")?,
                _ if char == quote => write!(f, "\\{char}")?,
                _ if char.is_control() => write!(f, "\\x{:02x}", u32::from(char))?,
                _ => f.write_char(char)?,
            }
        }
        f.write_char(quote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_match_python() {
        let value = json!({"b": [1, 1.0, -2, 1e16, "x"], "a": {"t": true, "n": null}, "e": {}});
        let expected = "{'a': {'n': None, 't': True}, 'b': [1, 1.0, -2, 1e+16, 'x'], 'e': {}}";
        assert_eq!(Literal(&value).to_string(), expected);
        assert_eq!(Literal(&json!([false])).to_string(), "[False]");
    }

    #[test]
    fn strings_are_quoted_and_escaped_as_in_python() {
        for (text, expected) in [
            ("plain", "'plain'"),
            ("it's", "\"it's\""),
            ("say \"hi\"", "'say \"hi\"'"),
            ("it's \"both\"", "'it\\'s \"both\"'"),
            ("a\n\t\\\u{7f}", "'a\\n\\t\\\\\\x7f'"),
            ("ä中", "'ä中'"),
        ] {
            assert_eq!(Text(text).to_string(), expected);
        }
    }
}
