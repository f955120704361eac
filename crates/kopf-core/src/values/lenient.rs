//! Lenient parsing of JSON that Python and the API server accept and serde_json rejects.
//!
//! Python writes lone surrogates (`"\ud800"`) for strings from undecodable bytes, and both Python
//! and the API server nest values deeper than serde_json. Such objects must be handled, and be
//! deletable, like any other. This parser is the fallback for the rare documents on which
//! serde_json fails: slower, and without recursion.
//!
//! Values that cannot be represented are replaced: lone surrogates by U+FFFD, numbers out of range
//! by the largest ones, and values that are nested too deeply by null, which is counted.

use serde_json::{Map, Number, Value};

/// Maximum nesting depth of values, about that of the original. Functions on values need stack for
/// every level.
pub const DEPTH_LIMIT: usize = 1_000;

/// The result of lenient parsing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Read {
    pub(crate) value: Value,
    /// The number of values that were omitted because they are nested too deeply.
    pub(crate) cut: usize,
}

/// Parses JSON: strictly if possible, otherwise leniently.
///
/// # Errors
/// The error of the strict parser, if the lenient one fails as well.
pub fn from_str(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text)
        .or_else(|error| read(text.as_bytes()).map(|read| read.value).ok_or(error))
}

/// Parses leniently; `None` if the input is not JSON.
pub(crate) fn read(bytes: &[u8]) -> Option<Read> {
    let mut reader = Reader {
        bytes,
        at: 0,
        cut: 0,
    };
    let value = reader.document()?;
    reader.skip_space();
    (reader.at == bytes.len()).then_some(Read {
        value,
        cut: reader.cut,
    })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    cut: usize,
}

/// A container that is being read.
enum Open {
    Array(Vec<Value>),
    /// With the key of the next value.
    Object(Map<String, Value>, String),
}

impl Reader<'_> {
    fn document(&mut self) -> Option<Value> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            let Some(value) = self.begin(&mut open)? else {
                continue;
            };
            if let Some(whole) = self.end(&mut open, value)? {
                return Some(whole);
            }
        }
    }

    /// Parses a scalar or an empty container; `Some(None)` if a container was opened.
    #[expect(clippy::option_option, reason = "the outer one is for failures")]
    fn begin(&mut self, open: &mut Vec<Open>) -> Option<Option<Value>> {
        self.skip_space();
        Some(Some(match self.peek()? {
            b'{' | b'[' if open.len() >= DEPTH_LIMIT => {
                self.skip_container()?;
                self.cut = self.cut.saturating_add(1);
                Value::Null
            }
            b'{' => {
                self.at += 1;
                match self.first_key()? {
                    Some(key) => {
                        open.push(Open::Object(Map::new(), key));
                        return Some(None);
                    }
                    None => Value::Object(Map::new()),
                }
            }
            b'[' => {
                self.at += 1;
                self.skip_space();
                if self.take(b']') {
                    Value::Array(Vec::new())
                } else {
                    open.push(Open::Array(Vec::new()));
                    return Some(None);
                }
            }
            b'"' => Value::String(self.string()?),
            b't' => self.literal("true", Value::Bool(true))?,
            b'f' => self.literal("false", Value::Bool(false))?,
            b'n' => self.literal("null", Value::Null)?,
            _ => Value::Number(self.number()?),
        }))
    }

    /// Adds a value to its container, and closes the containers that end after it. Returns the
    /// whole document if all of them do; `Some(None)` if another value follows.
    #[expect(clippy::option_option, reason = "the outer one is for failures")]
    fn end(&mut self, open: &mut Vec<Open>, mut value: Value) -> Option<Option<Value>> {
        while let Some(container) = open.pop() {
            self.skip_space();
            match container {
                Open::Array(mut items) => {
                    items.push(value);
                    if self.take(b',') {
                        open.push(Open::Array(items));
                        return Some(None);
                    }
                    self.take(b']').then_some(())?;
                    value = Value::Array(items);
                }
                Open::Object(mut map, key) => {
                    map.insert(key, value);
                    if self.take(b',') {
                        let key = self.key()?;
                        open.push(Open::Object(map, key));
                        return Some(None);
                    }
                    self.take(b'}').then_some(())?;
                    value = Value::Object(map);
                }
            }
        }
        Some(Some(value))
    }

    /// Parses the first key of an object, with its colon; `Some(None)` if the object is empty.
    #[expect(clippy::option_option, reason = "the outer one is for failures")]
    fn first_key(&mut self) -> Option<Option<String>> {
        self.skip_space();
        if self.take(b'}') {
            return Some(None);
        }
        self.key().map(Some)
    }

    fn key(&mut self) -> Option<String> {
        self.skip_space();
        let key = self.string()?;
        self.skip_space();
        self.take(b':').then_some(key)
    }

    fn string(&mut self) -> Option<String> {
        let quoted = self.quoted()?;
        if !quoted.contains(&b'\\') {
            let inner = quoted.get(1..quoted.len().checked_sub(1)?)?;
            let is_plain = inner.iter().all(|byte| *byte >= b' ');
            return is_plain.then(|| String::from_utf8_lossy(inner).into_owned());
        }
        let text = String::from_utf8_lossy(quoted);
        serde_json::from_str(&without_lone_surrogates(&text)).ok()
    }

    /// Returns a string with its quotes, without decoding.
    fn quoted(&mut self) -> Option<&[u8]> {
        let start = self.at;
        self.take(b'"').then_some(())?;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return self.bytes.get(start..self.at);
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }

    fn number(&mut self) -> Option<Number> {
        let rest = self.bytes.get(self.at..)?;
        let is_part = |byte: &&u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let length = rest.iter().take_while(is_part).count();
        let text = std::str::from_utf8(rest.get(..length)?).ok()?;
        self.at += length;
        let number = serde_json::from_str::<Number>(text).ok();
        number.or_else(|| {
            let float: f64 = text
                .parse()
                .ok()
                .filter(|float: &f64| float.is_infinite())?;
            Number::from_f64(float.clamp(f64::MIN, f64::MAX))
        })
    }

    fn literal(&mut self, text: &str, value: Value) -> Option<Value> {
        let rest = self.bytes.get(self.at..)?;
        rest.starts_with(text.as_bytes()).then(|| {
            self.at += text.len();
            value
        })
    }

    /// Skips an array or an object without validating its content.
    fn skip_container(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => drop(self.quoted()?),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                    if depth == 0 {
                        return Some(());
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }
}

/// Returns the same JSON string with lone surrogates replaced.
fn without_lone_surrogates(quoted: &str) -> String {
    let mut clean = String::with_capacity(quoted.len());
    let mut rest = quoted;
    while let Some(start) = rest.find('\\') {
        let (plain, escape) = rest.split_at(start);
        clean.push_str(plain);
        let length = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                clean.push('\u{fffd}');
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            (Some(_), _) => 6,
            // Another escape: the backslash and the next character.
            (None, _) => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (escape, tail) = escape.split_at_checked(length).unwrap_or((escape, ""));
        clean.push_str(escape);
        rest = tail;
    }
    clean.push_str(rest);
    clean
}

/// Returns the code of an escape such as `\u00e4` at the start of the string.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u16::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::diff;
    use crate::encoding::to_json_text;
    use crate::equality::equal;
    use proptest::prelude::*;
    use serde_json::json;

    fn value(text: &str) -> Option<Value> {
        read(text.as_bytes()).map(|read| read.value)
    }

    /// Returns nested objects of this depth.
    fn nested(depth: usize) -> String {
        format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth))
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        for (text, expected) in [
            (r#""\ud800""#, "\u{fffd}"),
            (r#""a\udc80b\uD83D""#, "a\u{fffd}b\u{fffd}"),
            (r#""\ud800\ud83d\ude00\n""#, "\u{fffd}😀\n"),
            (r#""\ud800\u0041""#, "\u{fffd}A"),
            (r#""\\ud800""#, "\\ud800"),
            (r#""\\\ud800\"""#, "\\\u{fffd}\""),
            (r#""ä\ud800ä""#, "ä\u{fffd}ä"),
        ] {
            assert_eq!(from_str(text).unwrap(), expected, "{text}");
        }
        let record = from_str(r#"{"message": "\udcff", "\ud800": [1]}"#).unwrap();
        assert_eq!(record, json!({"message": "\u{fffd}", "\u{fffd}": [1]}));
    }

    #[test]
    fn deep_values_are_parsed_and_very_deep_ones_are_nulled() {
        for depth in [100, 127, 128, DEPTH_LIMIT] {
            let read = read(nested(depth).as_bytes()).unwrap();
            assert_eq!(read.cut, 0);
            assert_eq!(to_json_text(&read.value), nested(depth));
        }
        let text = format!(r#"[{}, "b", [["]"]]]"#, nested(DEPTH_LIMIT + 7));
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(read.cut, 1);
        assert_eq!(read.value[1], "b");
        assert_eq!(read.value[2], json!([["]"]]));
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert_eq!(super::read(deep.as_bytes()).unwrap().cut, 1);
    }

    #[test]
    fn operations_on_the_deepest_values_fit_into_the_stack() {
        let work = || {
            let value = value(&nested(DEPTH_LIMIT)).unwrap();
            let other = self::value(&nested(DEPTH_LIMIT).replace('1', "2")).unwrap();
            assert!(equal(&value, &value.clone()));
            assert!(!diff(&value, &other).is_empty());
            assert_eq!(to_json_text(&other).len(), nested(DEPTH_LIMIT).len());
            assert!(!json_patch::diff(&value, &other).0.is_empty());
            let mut merged = value.clone();
            json_patch::merge(&mut merged, &other);
            assert_eq!(merged, other);
            assert_eq!(other.to_string(), to_json_text(&other));
        };
        // The default stack size of tokio's threads.
        let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
        thread.spawn(work).unwrap().join().unwrap();
    }

    #[test]
    fn numbers_out_of_range_are_the_largest_ones() {
        assert_eq!(value("[1e400, -1e400]"), Some(json!([f64::MAX, f64::MIN])));
        assert_eq!(value("[1, -2, 2.5]"), Some(json!([1, -2, 2.5])));
        assert_eq!(
            value("18446744073709552000"),
            Some(json!(18_446_744_073_709_552_000_f64))
        );
    }

    #[test]
    fn malformed_input_is_rejected() {
        for text in [
            "",
            " ",
            "{",
            "}",
            "[",
            "]",
            "{]",
            "[}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "[1,]",
            "[1 2]",
            "nul",
            "truely",
            "\"",
            "\"\\",
            "\"\\u12\"",
            "\"\\x\"",
            "\"\n\"",
            "1 2",
            "-",
            "--1",
            "1e",
            "{a:1}",
            "{1:1}",
            "NaN",
            "+1",
            "01",
        ] {
            assert_eq!(value(text), None, "{text}");
            assert!(from_str(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn lenient_and_strict_results_are_equal(
            text in r#"[\[\]{}:," \\a1.e\-]{0,12}|\PC{0,20}"#,
        ) {
            if let Ok(strict) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(value(&text), Some(strict));
            }
            let _ = read(text.as_bytes());
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = read(&bytes);
        }
    }
}
