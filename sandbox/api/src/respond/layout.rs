//! Properties of responses that depend on the request alone: the audit id, and indented JSON.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, header};
use kopf_sandbox_store::ids::Ids;

use crate::body::{Body, Unending};

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Clients of humans, which get indented JSON by default.
const HUMAN_AGENTS: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// The layout of the response to a request.
#[derive(Debug)]
pub struct Layout {
    audit_id: Option<HeaderValue>,
    is_indented: bool,
}

impl Layout {
    pub fn of(parts: &Parts, ids: &Ids) -> Self {
        let given = parts.headers.get(AUDIT_ID);
        let audit_id = match given.filter(|id| !id.is_empty()) {
            Some(id) => Some(id.clone()),
            None => HeaderValue::try_from(ids.audit_id()).ok(),
        };
        Self {
            audit_id,
            is_indented: wants_indentation(parts),
        }
    }

    pub fn apply(self, mut response: Response<Body>) -> Response<Body> {
        if let Some(id) = self.audit_id {
            response.headers_mut().insert(AUDIT_ID, id);
        }
        if !self.is_indented || !is_document(&response) {
            return response;
        }
        let mut indenter = Indenter::default();
        response.map(|body| body.map_data(move |chunk| indenter.write(&chunk)))
    }
}

/// Returns `true` for JSON other than events.
fn is_document(response: &Response<Body>) -> bool {
    let content_type = response.headers().get(header::CONTENT_TYPE);
    response.extensions().get::<Unending>().is_none()
        && response.extensions().get::<Verbatim>().is_none()
        && content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}

/// Marks a response whose text does not depend on the options of the request, such as OpenAPI
/// documents.
#[derive(Debug, Clone, Copy)]
pub struct Verbatim;

fn wants_indentation(parts: &Parts) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    let asked = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "pretty");
    if let Some((_, value)) = asked.filter(|(_, value)| !value.is_empty()) {
        return matches!(&*value, "1" | "t" | "T" | "TRUE" | "true" | "True");
    }
    let accept = parts.headers.get(header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok());
    if accept.is_some_and(|accept| accept.replace(' ', "").contains(";pretty=1")) {
        return true;
    }
    let agent = parts.headers.get(header::USER_AGENT);
    let agent = agent.map_or(&b""[..], HeaderValue::as_bytes);
    HUMAN_AGENTS
        .iter()
        .any(|known| agent.starts_with(known.as_bytes()))
}

/// Indents JSON that arrives in parts. Whitespace outside of strings is dropped.
#[derive(Debug, Default)]
struct Indenter {
    depth: usize,
    text: Text,
    /// `true` after an opening bracket: empty lists and objects are on one line.
    opened: bool,
}

/// The position of the reader with respect to strings.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Inside,
    Escape,
}

impl Indenter {
    fn write(&mut self, part: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(part.len() + part.len() / 2);
        for &byte in part {
            match (self.text, byte) {
                (Text::Escape, _) => self.string(&mut out, byte, Text::Inside),
                (Text::Inside, b'\\') => self.string(&mut out, byte, Text::Escape),
                (Text::Inside, b'"') => self.string(&mut out, byte, Text::Outside),
                (Text::Inside, _) => out.push(byte),
                (Text::Outside, b' ' | b'\t' | b'\r' | b'\n') => {}
                (Text::Outside, b'{' | b'[') => {
                    self.begin(&mut out);
                    out.push(byte);
                    self.depth += 1;
                    self.opened = true;
                }
                (Text::Outside, b'}' | b']') => {
                    self.depth = self.depth.saturating_sub(1);
                    if !std::mem::take(&mut self.opened) {
                        self.line(&mut out);
                    }
                    out.push(byte);
                }
                (Text::Outside, b',') => {
                    out.push(byte);
                    self.line(&mut out);
                }
                (Text::Outside, b':') => out.extend_from_slice(b": "),
                (Text::Outside, b'"') => {
                    self.begin(&mut out);
                    self.string(&mut out, byte, Text::Inside);
                }
                (Text::Outside, _) => {
                    self.begin(&mut out);
                    out.push(byte);
                }
            }
        }
        Bytes::from(out)
    }

    fn string(&mut self, out: &mut Vec<u8>, byte: u8, next: Text) {
        out.push(byte);
        self.text = next;
    }

    /// Begins the first line of a list or object, if this is its first value.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.opened) {
            self.line(out);
        }
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', 2 * self.depth));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn json_is_indented_in_parts_of_any_size() {
        let value = json!({
            "a": [1, -2.5, true, null, "x: {[,\"\\"], "b": {}, "c": [], "d": { "e": [[]] }, "": "é",
        });
        let expected = serde_json::to_string_pretty(&value).unwrap();
        let text = format!("{value}\n");
        for size in 1..=text.len() {
            let mut indenter = Indenter::default();
            let parts = text.as_bytes().chunks(size);
            let parts: Vec<u8> = parts.flat_map(|part| indenter.write(part)).collect();
            assert_eq!(String::from_utf8(parts).unwrap(), expected, "{size}");
        }
        assert_eq!(serde_json::from_str::<Value>(&expected).unwrap(), value);
    }

    #[test]
    fn humans_get_indented_json_unless_they_ask_otherwise() {
        let asked = |query: &str, agent: &str| {
            let request = http::Request::get(format!("/x{query}"));
            let request = request.header(header::USER_AGENT, agent).body(()).unwrap();
            wants_indentation(&request.into_parts().0)
        };
        assert!(asked("", "curl/8.5.0") && asked("?pretty", "Mozilla/5.0 (X11)"));
        assert!(asked("?pretty=true", "kubectl") && asked("?a=1&pretty=1", ""));
        assert!(!asked("", "kubectl/v1.36") && !asked("?pretty=yes", ""));
        assert!(!asked("?pretty=0", "curl/8.5.0"));
    }
}
