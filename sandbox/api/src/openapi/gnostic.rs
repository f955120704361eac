//! The document of `/openapi/v2` in protobuf for kubectl, which accepts no other form.
//!
//! kubectl reads one fact from it: if the server validates the fields of a kind (the parameter
//! `fieldValidation` of patches). It does so for kinds that are newer than its cached documents of
//! `/openapi/v3`. Therefore, the document contains the patch operations of all kinds with this
//! parameter, and the definitions of custom resources. Field numbers are those of gnostic's
//! `openapiv2`.

use kopf_sandbox_schema::kind::Kinds;

use super::gnostic_schema;

/// The media types of the document in `Accept` headers.
const NAMES: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

/// The content type of the response.
pub const CONTENT_TYPE: &str = NAMES[1];

/// Returns `true` if the client accepts the document.
pub(crate) fn accepts_protobuf(accept: Option<&str>) -> bool {
    let mut clauses = accept.unwrap_or_default().split(',');
    clauses.any(|clause| {
        let media_type = clause.split(';').next().unwrap_or_default().trim();
        NAMES.contains(&media_type)
    })
}

/// Returns the document.
pub fn document(kinds: &Kinds) -> Vec<u8> {
    let mut paths = Message::default();
    for kind in kinds.iter() {
        for version in &kind.versions {
            let (group, name) = (&*kind.group, &*version.name);
            let path = format!("/apis/{group}/{name}/{}/{{name}}", kind.plural);
            let kind = [
                format!("group: {group:?}"),
                format!("version: {name:?}"),
                format!("kind: {:?}", kind.kind),
            ];
            paths.message(2, &named(&path, &patchable(&kind.join("\n"))));
        }
    }
    let version = crate::discovery::version();
    let version = version["gitVersion"].as_str().unwrap_or_default();
    let mut info = Message::default();
    info.text(1, "Kubernetes").text(2, version);
    let mut document = Message::default();
    document
        .text(1, "2.0")
        .message(2, &info)
        .message(8, &paths)
        .message(9, &gnostic_schema::definitions(kinds));
    document.0
}

/// Returns a path with a patch operation for a kind.
fn patchable(kind: &str) -> Message {
    let mut query = Message::default();
    query.text(2, "query").text(4, "fieldValidation");
    // The type of the parameter is determined by its nesting.
    let parameter = [3, 2, 1].into_iter().fold(query, |inner, number| {
        let mut outer = Message::default();
        outer.message(number, &inner);
        outer
    });
    let mut any = Message::default();
    any.text(2, kind);
    let mut operation = Message::default();
    operation
        .message(8, &parameter)
        .message(13, &named("x-kubernetes-group-version-kind", &any));
    let mut path = Message::default();
    path.message(8, &operation);
    path
}

pub(super) fn named(name: &str, value: &Message) -> Message {
    let mut named = Message::default();
    named.text(1, name).message(2, value);
    named
}

/// A protobuf message builder. All fields here are strings or messages.
#[derive(Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn text(&mut self, number: u8, text: &str) -> &mut Self {
        self.field(number, text.as_bytes())
    }

    pub(super) fn message(&mut self, number: u8, message: &Self) -> &mut Self {
        self.field(number, &message.0)
    }

    fn field(&mut self, number: u8, content: &[u8]) -> &mut Self {
        // Wire type 2 is length-delimited.
        self.varint(usize::from(number) << 3 | 2);
        self.varint(content.len());
        self.0.extend_from_slice(content);
        self
    }

    /// Writes a varint: seven bits per byte, the lowest first; the eighth bit marks continuation.
    fn varint(&mut self, mut number: usize) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protobuf_is_sent_on_request_only() {
        let kubectl = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        assert!(accepts_protobuf(Some(kubectl)));
        assert!(accepts_protobuf(Some(&format!(
            "application/json, {kubectl};q=1"
        ))));
        for other in [None, Some(""), Some("*/*"), Some("application/json")] {
            assert!(!accepts_protobuf(other), "{other:?}");
        }
    }

    #[test]
    fn messages_are_valid_protobuf() {
        let mut inner = Message::default();
        inner.text(1, "ab");
        let mut outer = Message::default();
        outer.message(13, &inner).text(2, &"x".repeat(300));
        assert_eq!(outer.0[..6], [0x6a, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(outer.0[6..9], [0x12, 0xac, 0x02]);
        assert_eq!(outer.0.len(), 9 + 300);
    }
}
