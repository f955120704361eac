//! Reviews that are too large or too deeply nested to be parsed.
//!
//! An HTTP error would let them pass: `failurePolicy: Ignore` admits requests whose webhook fails. So
//! they are denied by a proper response, which needs the uid of the request. API servers send it at
//! the beginning of the body, where a bounded scan finds it.

use std::fmt;

use serde_json::{Value, json};

/// Number of bytes at the beginning of a body that are scanned for the uid. API servers write it
/// within the first 200 bytes.
pub const SCANNED_BYTES: usize = 64 * 1024;

/// Number of characters of a uid in logs. Those of API servers have 36.
const LOGGED_CHARS: usize = 64;

/// Nesting depth at which parsing stops: the limit of `serde_json`.
const MAX_DEPTH: usize = 128;

/// Warning in the response, shown by `kubectl` beside the reason.
const WARNING: &str =
    "the operator denies this request without checking it: it cannot read the review";

/// Reason why a review is denied without being parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// The body is larger than the server reads.
    #[error("the review is larger than {limit} bytes")]
    TooLarge {
        /// Limit in bytes.
        limit: usize,
    },
    /// The parsed values would take more memory than the server has for one review.
    #[error("the review has more values than fit into {limit} bytes")]
    TooManyValues {
        /// Limit in bytes.
        limit: usize,
    },
    /// The body is nested too deeply.
    #[error("the review is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

impl Unreadable {
    /// Returns the status code: of the denial, or of the HTTP response if there is no uid.
    pub fn code(self) -> u16 {
        match self {
            Self::TooLarge { .. } | Self::TooManyValues { .. } => 413,
            Self::TooDeep => 422,
        }
    }

    /// Returns the `AdmissionReview` that denies the request, with the reason and a warning.
    ///
    /// ```
    /// use kopf_core::admission::{ReviewHead, Unreadable};
    ///
    /// let body = br#"{"kind":"AdmissionReview","request":{"uid":"u-1","object":[[[["#;
    /// let head = ReviewHead::scan(body).unwrap();
    /// let review = Unreadable::TooDeep.deny(&head);
    /// assert_eq!(review["response"]["uid"], "u-1");
    /// assert_eq!(review["response"]["allowed"], false);
    /// ```
    pub fn deny(self, head: &ReviewHead) -> Value {
        json!({
            "apiVersion": head.api_version,
            "kind": "AdmissionReview",
            "response": {
                "uid": head.uid,
                "allowed": false,
                "warnings": [WARNING],
                "status": {"message": self.to_string(), "code": self.code()},
            },
        })
    }
}

/// Fields at the beginning of a review that are needed to respond to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReviewHead {
    /// `apiVersion` of the review, if it comes before the request; otherwise the newest version.
    pub api_version: String,
    /// `request.uid`, never empty.
    pub uid: String,
}

impl ReviewHead {
    /// Finds the fields in the first [`SCANNED_BYTES`] of a body, which may be cut at any byte.
    ///
    /// `None` if there is no uid, or if it is not reached. The rest of the body is not checked.
    pub fn scan(body: &[u8]) -> Option<Self> {
        let mut scanner = Scanner {
            bytes: body.get(..SCANNED_BYTES).unwrap_or(body),
        };
        let mut api_version = None;
        scanner.open_object()?;
        while let Some(key) = scanner.key() {
            match key {
                b"\"apiVersion\"" => api_version = scanner.value().and_then(text),
                b"\"request\"" => {
                    let uid = scanner.uid()?;
                    let api_version =
                        api_version.unwrap_or_else(|| "admission.k8s.io/v1".to_owned());
                    return Some(Self { api_version, uid });
                }
                _ => drop(scanner.value()?),
            }
        }
        None
    }
}

/// The uid for logs: quoted and cut, since any client can send any uid.
impl fmt::Display for ReviewHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.uid.chars().take(LOGGED_CHARS).collect();
        write!(f, "{shown:?}")
    }
}

/// Decodes a JSON string. `None` for other values and for empty strings.
fn text(value: &[u8]) -> Option<String> {
    let text: String = serde_json::from_slice(value).ok()?;
    (!text.is_empty()).then_some(text)
}

/// Reader of JSON tokens that neither recurses nor allocates. It does not validate: commas and colons
/// are skipped like white space.
struct Scanner<'a> {
    bytes: &'a [u8],
}

impl<'a> Scanner<'a> {
    fn uid(&mut self) -> Option<String> {
        self.open_object()?;
        while let Some(key) = self.key() {
            let value = self.value()?;
            if key == b"\"uid\"" {
                return text(value);
            }
        }
        None
    }

    fn open_object(&mut self) -> Option<()> {
        self.skip_separators();
        self.bytes = self.bytes.strip_prefix(b"{")?;
        Some(())
    }

    /// Returns the next key with its quotes; `None` at the end of the object.
    fn key(&mut self) -> Option<&'a [u8]> {
        self.skip_separators();
        match self.bytes.first()? {
            b'"' => self.value(),
            _ => None,
        }
    }

    /// Returns the next value; `None` if it is cut.
    fn value(&mut self) -> Option<&'a [u8]> {
        self.skip_separators();
        let length = match self.bytes.first()? {
            b'"' => string_length(self.bytes)?,
            b'{' | b'[' => nested_length(self.bytes)?,
            _ => self
                .bytes
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']'))?,
        };
        let (value, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(value)
    }

    fn skip_separators(&mut self) {
        let is_separator = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b':');
        let length = self.bytes.iter().take_while(|byte| is_separator(byte));
        self.bytes = self.bytes.get(length.count()..).unwrap_or_default();
    }
}

/// Returns the length of the string that begins here, with its quotes; `None` if it is cut.
fn string_length(bytes: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    let end = bytes.iter().skip(1).position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    Some(end? + 2)
}

/// Returns the length of the object or the array that begins here; `None` if it is cut.
fn nested_length(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        let rest = bytes.get(at..)?;
        match rest.first()? {
            b'"' => at += string_length(rest)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth -= 1;
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(body: &str) -> Option<String> {
        ReviewHead::scan(body.as_bytes()).map(|head| head.uid)
    }

    #[test]
    fn uid_is_found_before_the_body_is_cut() {
        for body in [
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":{"#,
            r#"{"request":{"uid":"u""#,
            " { \"request\" : { \"uid\" : \"u\" ",
            r#"{"x":[1,{"request":{"uid":"no"}}],"y":"\"}","z":-1.5,"request":{"a":[],"uid":"u"}}"#,
            r#"{"uid":"no","request":{"object":{"metadata":{"uid":"no"}},"uid":"u"}}"#,
        ] {
            assert_eq!(uid(body).as_deref(), Some("u"), "{body}");
        }
    }

    #[test]
    fn bodies_without_a_uid_have_no_head() {
        for body in [
            "",
            "garbage",
            "[]",
            "{",
            "{}",
            r#"{"uid":"u"}"#,
            r#"{"request":"uid"}"#,
            r#"{"request":{"uid":""}}"#,
            r#"{"request":{"uid":5}}"#,
            r#"{"request":{"uid":"cut"#,
            r#"{"request":{"object":{"uid":"u"}}}"#,
            r#"{"request":{"object":[[[["#,
        ] {
            assert_eq!(uid(body), None, "{body}");
        }
    }

    #[test]
    fn scan_is_bounded() {
        let after = |size: usize| {
            format!(
                "{{\"x\":\"{}\",\"request\":{{\"uid\":\"u\"}}}}",
                "y".repeat(size)
            )
        };
        assert_eq!(uid(&after(SCANNED_BYTES - 100)).as_deref(), Some("u"));
        assert_eq!(uid(&after(SCANNED_BYTES)), None);
        let deep = format!("{{\"x\":{}", "[".repeat(10_000_000));
        assert_eq!(uid(&deep), None);
    }

    #[test]
    fn versions_are_those_of_the_request() {
        let scan = |body: &str| ReviewHead::scan(body.as_bytes()).unwrap().api_version;
        let older = r#"{"apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u"}}"#;
        assert_eq!(scan(older), "admission.k8s.io/v1beta1");
        assert_eq!(scan(r#"{"request":{"uid":"u"}}"#), "admission.k8s.io/v1");
    }

    #[test]
    fn uids_cannot_forge_log_lines() {
        let head = ReviewHead::scan(br#"{"request":{"uid":"u\nERROR forged"}}"#).unwrap();
        assert_eq!(head.to_string(), r#""u\nERROR forged""#);
        let long = format!("{{\"request\":{{\"uid\":\"{}\"}}}}", "u".repeat(60_000));
        let head = ReviewHead::scan(long.as_bytes()).unwrap();
        assert_eq!(head.to_string().len(), LOGGED_CHARS + 2);
    }

    #[test]
    fn denials_have_a_reason_a_code_and_a_warning() {
        let head = ReviewHead::scan(br#"{"request":{"uid":"u"}}"#).unwrap();
        let denied = Unreadable::TooLarge { limit: 5 }.deny(&head);
        let expected = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {
                "uid": "u",
                "allowed": false,
                "warnings": [WARNING],
                "status": {"message": "the review is larger than 5 bytes", "code": 413},
            },
        });
        assert_eq!(denied, expected);
    }
}
