//! The outline of an object, extracted from its bytes without decoding them.
//!
//! Most versions of objects are routed to their queues and superseded there, and
//! `metadata.managedFields` are often the larger half of them. This extracts the few strings that
//! identify an object, and skips all other values, without validating them: malformed JSON can
//! still be found when the object is parsed.

use std::ops::Range;

/// The strings that identify an object, and the range of `metadata.managedFields`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline<'a> {
    /// `apiVersion`.
    pub api_version: Option<&'a str>,
    /// `kind`.
    pub kind: Option<&'a str>,
    /// `metadata.uid`.
    pub uid: Option<&'a str>,
    /// `metadata.namespace`.
    pub namespace: Option<&'a str>,
    /// `metadata.name`.
    pub name: Option<&'a str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<&'a str>,
    /// The range of bytes to remove in order to drop `metadata.managedFields`.
    pub managed_fields: Range<usize>,
}

impl<'a> Outline<'a> {
    /// Extracts the outline. `None` if the bytes are not in the form that servers write, such as
    /// with escapes in these strings, or are not an object.
    ///
    /// ```
    /// use kopf_core::outline::Outline;
    ///
    /// let bytes = br#"{"kind":"Thing","metadata":{"name":"obj","managedFields":[{}]},"spec":{}}"#;
    /// let outline = Outline::find(bytes).unwrap();
    /// assert_eq!((outline.kind, outline.name, outline.uid), (Some("Thing"), Some("obj"), None));
    /// assert_eq!(&bytes[outline.managed_fields], br#","managedFields":[{}]"#);
    /// ```
    pub fn find(object: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor {
            bytes: object,
            at: 0,
        };
        let mut outline = Self::default();
        cursor.object(|cursor, key, _| match key {
            b"apiVersion" => cursor.text(&mut outline.api_version),
            b"kind" => cursor.text(&mut outline.kind),
            b"metadata" => outline.metadata(cursor),
            _ => cursor.skip(),
        })?;
        cursor.peek().is_none().then_some(outline)
    }

    fn metadata(&mut self, cursor: &mut Cursor<'a>) -> Option<()> {
        // The end of the previous field, and the start of the removed one.
        let (mut end, mut begin) = (None, None);
        cursor.object(|cursor, key, start| {
            if let Some(begin) = begin.take() {
                self.managed_fields = begin..start;
            }
            match key {
                b"uid" => cursor.text(&mut self.uid)?,
                b"namespace" => cursor.text(&mut self.namespace)?,
                b"name" => cursor.text(&mut self.name)?,
                b"resourceVersion" => cursor.text(&mut self.resource_version)?,
                b"managedFields" => {
                    cursor.skip()?;
                    // If no field follows, the comma before it is removed as well.
                    self.managed_fields = end.unwrap_or(start)..cursor.at;
                    begin = Some(start);
                }
                _ => cursor.skip()?,
            }
            end = Some(cursor.at);
            Some(())
        })
    }
}

/// A position in the bytes.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Returns the next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.at)? {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                byte => return Some(*byte),
            }
        }
    }

    fn take(&mut self, expected: u8) -> Option<()> {
        (self.peek()? == expected).then(|| self.at += 1)
    }

    /// Iterates over an object. The visitor gets each key with its position, and skips its value.
    fn object(
        &mut self,
        mut visit: impl FnMut(&mut Self, &'a [u8], usize) -> Option<()>,
    ) -> Option<()> {
        self.take(b'{')?;
        if self.peek()? == b'}' {
            return self.take(b'}');
        }
        loop {
            self.peek()?;
            let start = self.at;
            let key = self.plain()?;
            self.take(b':')?;
            visit(self, key, start)?;
            match self.peek()? {
                b',' => self.at += 1,
                _ => return self.take(b'}'),
            }
        }
    }

    /// Returns a string without escapes.
    fn plain(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let rest = self.bytes.get(self.at..)?;
        let length = quote_or_escape(rest)?;
        (rest.get(length) == Some(&b'"')).then(|| self.at += length + 1)?;
        rest.get(..length)
    }

    /// Reads a string or null.
    fn text(&mut self, text: &mut Option<&'a str>) -> Option<()> {
        if self.peek()? == b'"' {
            *text = Some(std::str::from_utf8(self.plain()?).ok()?);
            return Some(());
        }
        *text = None;
        let rest = self.bytes.get(self.at..)?;
        rest.starts_with(b"null").then(|| self.at += 4)
    }

    /// Moves to the end of a string after its opening quote.
    fn end_of_text(&mut self) -> Option<()> {
        loop {
            let rest = self.bytes.get(self.at..)?;
            let length = quote_or_escape(rest)?;
            let is_escape = rest.get(length) == Some(&b'\\');
            self.at += length + 1 + usize::from(is_escape);
            if !is_escape {
                return Some(());
            }
        }
    }

    /// Skips a value of any type and depth.
    fn skip(&mut self) -> Option<()> {
        match self.peek()? {
            b'{' | b'[' => {}
            b'"' => {
                self.at += 1;
                return self.end_of_text();
            }
            byte if byte.is_ascii_alphanumeric() || byte == b'-' => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                while self.bytes.get(self.at).is_some_and(is_part) {
                    self.at += 1;
                }
                return Some(());
            }
            _ => return None,
        }
        let mut depth = 0_usize;
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => self.end_of_text()?,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(());
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns the position of the first quote or backslash. Most strings are short, so that comparing
/// eight bytes at a time is faster than a search for long ones.
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    /// Marks zero bytes: the lowest set bit belongs to the first one.
    fn zero(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word & (ONES << 7)
    }
    let (words, rest) = bytes.as_chunks::<8>();
    for (position, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let hits = zero(word ^ (ONES * u64::from(b'"'))) | zero(word ^ (ONES * u64::from(b'\\')));
        if hits != 0 {
            return Some(position * 8 + hits.trailing_zeros() as usize / 8);
        }
    }
    let position = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    Some(words.len() * 8 + position)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn outline_is_found_in_any_order() {
        let object = br#" {"spec": {"metadata": {"uid": "no"}, "deep": [[[{"a": "}\""}]]], "n": -1.5e+3},
            "metadata": {"uid": "u", "labels": {"name": "no"}, "name": "n", "namespace": null,
                         "resourceVersion": "5"}, "status": true, "kind": "K", "apiVersion": "v1" } "#;
        let expected = Outline {
            api_version: Some("v1"),
            kind: Some("K"),
            uid: Some("u"),
            namespace: None,
            name: Some("n"),
            resource_version: Some("5"),
            managed_fields: 0..0,
        };
        assert_eq!(Outline::find(object), Some(expected));
        assert_eq!(Outline::find(b"{}"), Some(Outline::default()));
        assert_eq!(
            Outline::find(br#"{"metadata": {}}"#),
            Some(Outline::default())
        );
    }

    #[test]
    fn unusual_forms_have_no_outline() {
        for object in [
            &b""[..],
            b"{",
            b"null",
            b"1",
            b"[]",
            b"{} {}",
            b"{}}",
            b"\xff",
            b"{\"metadata\":{\"name\":\"\xff\"}}",
            br#"{"a"}"#,
            br#"{"a":}"#,
            br#"{"a":1,}"#,
            br#"{"a":1 "b":2}"#,
            br#"{"a":[1}"#,
            br#"{"a":"text}"#,
            br#"{"a":"text\"}"#,
            br#"{"metadata":1}"#,
            br#"{"metadata":null}"#,
            br#"{"metadata":{"name":1}}"#,
            br#"{"metadata":{"name":"\u0041"}}"#,
            br#"{"m\u0065tadata":{}}"#,
            br#"{"metadata":{"name":"x"}"#,
        ] {
            assert_eq!(Outline::find(object), None, "{}", object.escape_ascii());
        }
    }

    #[test]
    fn outline_of_deep_objects_is_found() {
        let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(Outline::find(deep.as_bytes()).is_some());
    }

    #[test]
    fn managed_fields_are_located_at_any_position() {
        for (object, lean) in [
            (
                r#"{"metadata":{"managedFields":[{"a":"]"}]}}"#,
                r#"{"metadata":{}}"#,
            ),
            (
                r#"{"metadata":{"managedFields":[],"a":1}}"#,
                r#"{"metadata":{"a":1}}"#,
            ),
            (
                r#"{"metadata":{"a":1,"managedFields":[]}}"#,
                r#"{"metadata":{"a":1}}"#,
            ),
            (
                r#"{"metadata":{"a":1 , "managedFields" : [] , "b":2}}"#,
                r#"{"metadata":{"a":1 , "b":2}}"#,
            ),
            (
                r#"{"metadata":{"a":1 , "managedFields":null }}"#,
                r#"{"metadata":{"a":1 }}"#,
            ),
            (
                r#"{"managedFields":[],"metadata":{}}"#,
                r#"{"managedFields":[],"metadata":{}}"#,
            ),
        ] {
            let mut object = object.to_owned();
            object.drain(Outline::find(object.as_bytes()).unwrap().managed_fields);
            assert_eq!(object, lean);
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z\\\\\"]{0,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn outline_is_found_in_any_object(
            more in values(), name in "[a-z0-9.-]{0,9}", is_pretty: bool,
        ) {
            let mut object = json!({
                "kind": "K", "spec": more,
                "metadata": {"annotations": more, "managedFields": more, "name": name, "x": more},
            });
            let mut text = if is_pretty { format!("{object:#}") } else { object.to_string() };
            let outline = Outline::find(text.as_bytes()).unwrap();
            prop_assert_eq!((outline.kind, outline.name), (Some("K"), Some(&*name)));
            let managed_fields = outline.managed_fields;
            text.drain(managed_fields);
            let lean: Value = serde_json::from_str(&text).unwrap();
            object["metadata"].as_object_mut().unwrap().remove("managedFields");
            prop_assert_eq!(lean, object);
        }

        #[test]
        fn first_quote_or_escape_is_found(bytes in prop::collection::vec(0x1f_u8..0x60, 0..40)) {
            let expected = bytes.iter().position(|byte| b"\"\\".contains(byte));
            prop_assert_eq!(quote_or_escape(&bytes), expected);
        }

        #[test]
        fn malformed_input_never_panics(bytes: Vec<u8>, json in "[\\[\\]{}\",:a\\\\ ]{0,20}") {
            let _ = Outline::find(&bytes);
            let _ = Outline::find(format!(r#"{{"metadata":{json}"#).as_bytes());
        }
    }
}
