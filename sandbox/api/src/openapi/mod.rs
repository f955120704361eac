//! OpenAPI documents, in the extent that kubectl and other clients use.
//!
//! `/openapi/v3` is an index of documents per group and version. Those of built-in groups are
//! recorded from a real server and completed by their descriptions; those of custom groups are
//! built from the schemas of CRDs. `/openapi/v2` contains only definitions in JSON, and only patch
//! operations and definitions of custom resources in protobuf.
//!
//! Documents are computed on request, so that sandboxes start without this cost.

mod custom;
pub mod gnostic;
mod gnostic_schema;
mod operations;
mod recorded;
mod swagger;
mod texts;

use std::collections::BTreeSet;

use bytes::Bytes;
use kopf_sandbox_schema::kind::Kinds;
use serde_json::{Map, Value, json};

pub use custom::custom_document;
pub use swagger::swagger;

/// The response to `/openapi/v3/PATH`.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// 200 with JSON. `immutable` if the client requested the document by its hash.
    Document {
        body: Bytes,
        etag: String,
        immutable: bool,
    },
    /// 304: the client has the document.
    NotModified { etag: String, immutable: bool },
    /// 301: the client requested the hash of an older document.
    Moved { location: String },
    /// 404.
    NotFound,
}

/// Returns the response of `/openapi/v3`. The URL of a document changes with its content.
pub fn index(kinds: &Kinds) -> Value {
    let mut paths = Map::new();
    for recorded in recorded::documents() {
        let entry = json!({ "serverRelativeURL": address(&recorded.path, &recorded.hash) });
        paths.insert(recorded.path.clone(), entry);
    }
    for (group, version) in custom_versions(kinds) {
        let path = format!("apis/{group}/{version}");
        let hash = custom::fingerprint(kinds, &group, &version);
        let entry = json!({ "serverRelativeURL": address(&path, &hash) });
        paths.entry(path).or_insert(entry);
    }
    json!({ "paths": paths })
}

/// Returns the response of `/openapi/v3/PATH`: `path` is `api/v1` or `apis/GROUP/VERSION`, `wanted`
/// is the `hash` parameter, `known` is the `If-None-Match` header.
pub fn document(kinds: &Kinds, path: &str, wanted: Option<&str>, known: Option<&str>) -> Reply {
    let recorded = recorded::document(path);
    let parts = path
        .strip_prefix("apis/")
        .and_then(|rest| rest.split_once('/'));
    let hash = match (recorded, parts) {
        (Some(recorded), _) => recorded.hash.clone(),
        (None, Some((group, version))) if is_custom(kinds, group, version) => {
            custom::fingerprint(kinds, group, version)
        }
        _ => return Reply::NotFound,
    };
    if wanted.is_some_and(|wanted| wanted != hash) {
        return Reply::Moved {
            location: address(path, &hash),
        };
    }
    let immutable = wanted.is_some();
    let etag = format!("\"{hash}\"");
    if known.is_some_and(|known| known.split(',').any(|known| known.trim() == etag)) {
        return Reply::NotModified { etag, immutable };
    }
    let body = match (recorded, parts) {
        (Some(recorded), _) => recorded.described().clone(),
        (None, Some((group, version))) => {
            Bytes::from(custom_document(kinds, group, version).to_string())
        }
        (None, None) => return Reply::NotFound,
    };
    Reply::Document {
        body,
        etag,
        immutable,
    }
}

/// Returns `true` if a client accepts JSON. Protobuf is not supported (406).
pub(crate) fn accepts_json(accept: Option<&str>) -> bool {
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else {
        return true;
    };
    accept.split(',').any(|clause| {
        let media_type = clause.split(';').next().unwrap_or_default().trim();
        matches!(media_type, "application/json" | "application/*" | "*/*")
    })
}

fn address(path: &str, hash: &str) -> String {
    format!("/openapi/v3/{path}?hash={hash}")
}

fn custom_versions(kinds: &Kinds) -> BTreeSet<(String, String)> {
    let custom = kinds.iter().filter(|kind| kind.is_custom());
    custom
        .flat_map(|kind| {
            kind.versions
                .iter()
                .map(|version| (kind.group.to_string(), version.name.to_string()))
        })
        .collect()
}

fn is_custom(kinds: &Kinds, group: &str, version: &str) -> bool {
    kinds
        .of_group(group)
        .any(|kind| kind.is_custom() && kind.version(version).is_some())
}

/// A 128-bit content hash, equal in all processes of a build and not cryptographic: FNV-1a with two
/// initial values.
struct Fingerprint([u64; 2]);

impl Default for Fingerprint {
    fn default() -> Self {
        Self([0xcbf2_9ce4_8422_2325, 0x9e37_79b9_7f4a_7c15])
    }
}

impl Fingerprint {
    fn of(text: &str) -> String {
        let mut fingerprint = Self::default();
        fingerprint.add(text);
        fingerprint.text()
    }

    fn add(&mut self, text: &str) {
        // The separator distinguishes "a", "b" from "ab".
        for byte in text.bytes().chain([0xff]) {
            for state in &mut self.0 {
                *state = (*state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
    }

    fn text(&self) -> String {
        let [one, two] = self.0;
        format!("{one:016X}{two:016X}")
    }
}

#[cfg(test)]
mod tests {
    use kopf_sandbox_kinds::builtin::builtin;

    use super::*;

    fn url(index: &Value, path: &str) -> String {
        index["paths"][path]["serverRelativeURL"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn every_indexed_document_is_served() {
        let mut kinds = builtin();
        kinds.insert(custom::tests::gadget());
        let index = index(&kinds);
        let paths = index["paths"].as_object().unwrap();
        assert!(paths.contains_key("api/v1") && paths.contains_key("apis/x.example.com/v1"));
        for path in paths.keys() {
            let url = url(&index, path);
            let (_, hash) = url.split_once("?hash=").unwrap();
            let Reply::Document {
                body,
                etag,
                immutable,
            } = document(&kinds, path, Some(hash), None)
            else {
                panic!("{path}");
            };
            assert!(immutable);
            assert_eq!(etag, format!("\"{hash}\""));
            let document: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(document["openapi"], "3.0.0", "{path}");
        }
    }

    #[test]
    fn known_documents_are_not_modified() {
        let kinds = builtin();
        let Reply::Document {
            etag, immutable, ..
        } = document(&kinds, "api/v1", None, None)
        else {
            panic!("it is served");
        };
        assert!(!immutable);
        assert_eq!(
            document(&kinds, "api/v1", None, Some(&etag)),
            Reply::NotModified {
                etag: etag.clone(),
                immutable: false
            }
        );
        let hash = etag.trim_matches('"');
        assert_eq!(
            document(&kinds, "api/v1", Some("OLD"), None),
            Reply::Moved {
                location: format!("/openapi/v3/api/v1?hash={hash}")
            }
        );
        assert_eq!(
            document(&kinds, "apis/nowhere/v1", None, None),
            Reply::NotFound
        );
        assert_eq!(document(&kinds, "apis", None, None), Reply::NotFound);
    }

    #[test]
    fn url_changes_with_the_schema() {
        let mut kinds = builtin();
        kinds.insert(custom::tests::gadget());
        let before = url(&index(&kinds), "apis/x.example.com/v1");
        let mut changed = custom::tests::gadget();
        changed.versions[0].schema = None;
        kinds.insert(changed);
        assert_ne!(url(&index(&kinds), "apis/x.example.com/v1"), before);
    }

    #[test]
    fn protobuf_alone_is_rejected() {
        assert!(accepts_json(None));
        assert!(accepts_json(Some("application/json, */*")));
        assert!(!accepts_json(Some(
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        )));
    }
}
