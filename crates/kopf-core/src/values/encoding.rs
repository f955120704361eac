//! JSON strings stored on objects, in the exact format of the original.
//!
//! Compact, ASCII only (other characters are escaped), floats with a decimal point. Any JSON is
//! parsed, and only parsed values are compared; the common format helps people who compare objects,
//! and keeps the size of annotations equal.

use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

use crate::key_order::{InOrder, KeyOrder};

/// Serialises a value.
///
/// ```
/// use kopf_core::encoding::to_json_text;
///
/// let text = to_json_text(&serde_json::json!({"a": [1, 1.0, "ä"]}));
/// assert_eq!(text, r#"{"a":[1,1.0,"\u00e4"]}"#);
/// ```
pub fn to_json_text(value: &Value) -> String {
    to_json_text_in_order(value, None)
}

/// Serialises a value with its keys in this order.
pub fn to_json_text_in_order(value: &Value, order: Option<&KeyOrder>) -> String {
    try_json_text(&InOrder(value, order))
        .expect("a JSON value has only string keys, and memory accepts any bytes")
}

/// Serialises any type. Fails only if its own serialisation does.
pub fn try_json_text<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::with_capacity(256);
    value.serialize(&mut Serializer::with_formatter(&mut bytes, AsciiFormatter))?;
    Ok(String::from_utf8(bytes).expect("the formatter writes ASCII only"))
}

/// Returns `true` if the value serialises to exactly this string. Cheaper than serialising: it does
/// not allocate, and stops at the first difference. Other strings can represent the same value.
pub fn is_json_text<T: Serialize + ?Sized>(value: &T, text: &str) -> bool {
    let mut expected = Expected(text.as_bytes());
    let written = value
        .serialize(&mut Serializer::with_formatter(
            &mut expected,
            AsciiFormatter,
        ))
        .is_ok();
    written && expected.0.is_empty()
}

/// A writer that accepts exactly these bytes.
struct Expected<'a>(&'a [u8]);

impl io::Write for Expected<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.strip_prefix(bytes) {
            Some(rest) => self.0 = rest,
            None => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct AsciiFormatter;

impl Formatter for AsciiFormatter {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(python_float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(start) = rest.find(|char: char| !matches!(char, ' '..='~')) {
            let (plain, tail) = rest.split_at(start);
            writer.write_all(plain.as_bytes())?;
            let mut chars = tail.chars();
            if let Some(char) = chars.next() {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
            rest = chars.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

/// Formats a finite float as Python does: the shortest digits that parse back, with a decimal
/// point; an exponent of at least two digits for very large and very small numbers.
///
/// Whole numbers beyond 64 bits are floats here, but integers in Python, which prints all digits
/// that the server sent. The server has them as floats as well, and sends them without an exponent
/// up to a limit.
pub(crate) fn python_float(value: f64) -> String {
    if is_long_integer(value) {
        return format!("{value}");
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(-4..=15) => {
            let plain = format!("{value}");
            if plain.contains('.') {
                plain
            } else {
                plain + ".0"
            }
        }
        Ok(exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        Err(_) => scientific,
    }
}

/// Returns `true` if the server serialises the float as an integer that exceeds 64 bits.
fn is_long_integer(value: f64) -> bool {
    const LARGEST: f64 = 18_446_744_073_709_551_616.0; // 2^64
    const SMALLEST: f64 = -9_223_372_036_854_775_808.0; // -2^63
    !(SMALLEST..LARGEST).contains(&value) && value.abs() < 1e21
}

/// Returns the size of a value as JSON, in bytes.
pub fn size_of_json(value: &impl Serialize) -> usize {
    let mut counter = Counter(0);
    // Only values with keys that are not strings cannot be serialised.
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) | Err(_) => counter.0,
    }
}

/// A writer that counts bytes.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn texts_are_ascii_with_surrogate_pairs() {
        for (text, expected) in [
            ("ä中", r#""\u00e4\u4e2d""#),
            ("😀!", r#""\ud83d\ude00!""#),
            ("\u{7f}\u{80} ~", r#""\u007f\u0080 ~""#),
            ("\n\t\r\u{8}\u{c}\u{1}\"\\/", r#""\n\t\r\b\f\u0001\"\\/""#),
            ("", r#""""#),
        ] {
            assert_eq!(to_json_text(&json!(text)), expected);
        }
        assert_eq!(
            to_json_text(&json!({"ключ": 1})),
            r#"{"\u043a\u043b\u044e\u0447":1}"#
        );
    }

    // The expected strings are results of Python's `repr()`.
    #[test]
    fn floats_match_python() {
        for (value, expected) in [
            (1.0, "1.0"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123_456_789_012_345.6, "123456789012345.6"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e22, "1.25e+22"),
            (1e100, "1e+100"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(to_json_text(&json!(value)), expected);
        }
        assert_eq!(
            to_json_text(&json!([1, -1, u64::MAX])),
            "[1,-1,18446744073709551615]"
        );
    }

    // The server sends them like this, and Python parses them as integers.
    #[test]
    fn integers_beyond_64_bits_keep_their_digits() {
        for text in [
            "18446744073709552000",
            "100000000000000000000",
            "-9223372036854780000",
            "999999999999999900000",
            "1e+21",
            "1.5e+300",
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(to_json_text(&value), text);
            assert!(is_json_text(&value, text));
        }
    }

    #[test]
    fn only_the_exact_text_is_recognised() {
        let value = json!({"a": [1, 1.0, "ä"], "b": null});
        let text = to_json_text(&value);
        assert!(is_json_text(&value, &text));
        for other in [
            "",
            "{",
            &text[1..],
            &format!("{text}\n"),
            &text.replace("1.0", "1"),
        ] {
            assert!(!is_json_text(&value, other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_ascii_and_survives_a_round_trip(text in any::<String>()) {
            let encoded = to_json_text(&json!(text));
            prop_assert!(is_json_text(&json!(text), &encoded));
            prop_assert!(encoded.bytes().all(|byte| matches!(byte, b' '..=b'~')));
            prop_assert_eq!(serde_json::from_str::<String>(&encoded).unwrap(), text);
        }

        #[test]
        fn any_float_survives_a_round_trip(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
            let encoded = to_json_text(&json!(value));
            // Otherwise a stored number would differ each time it is read.
            let read = serde_json::from_str::<f64>(&encoded).unwrap();
            prop_assert_eq!(read.to_bits(), value.to_bits());
        }
    }

    #[test]
    fn json_is_counted_in_bytes() {
        assert_eq!(
            size_of_json(&json!({"a": ["ä", 1]})),
            r#"{"a":["ä",1]}"#.len()
        );
    }
}
