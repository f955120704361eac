//! OpenAPI documents of built-in groups, as recorded from a real server.

use std::sync::{LazyLock, OnceLock};

use bytes::Bytes;
use kopf_sandbox_schema::recorded;
use serde_json::Value;

use super::{Fingerprint, texts};

/// A recorded document.
pub(super) struct Document {
    /// `api/v1` or `apis/GROUP/VERSION`.
    pub(super) path: String,
    /// The document without descriptions.
    text: &'static str,
    pub(super) hash: String,
    described: OnceLock<Bytes>,
}

impl Document {
    /// Returns the document with its descriptions, as JSON. The first call takes milliseconds.
    pub(super) fn described(&self) -> &Bytes {
        self.described.get_or_init(|| {
            let mut document: Value = serde_json::from_str(self.text).unwrap_or_default();
            texts::describe(&mut document);
            Bytes::from(document.to_string())
        })
    }
}

/// Hashed once per process, on the first request of the index or a document.
static HASHED: LazyLock<Vec<Document>> = LazyLock::new(|| {
    let descriptions = texts::fingerprint();
    let document = |(name, text): &(&str, &'static str)| {
        let mut fingerprint = Fingerprint::default();
        fingerprint.add(text);
        fingerprint.add(&descriptions);
        Document {
            path: name.replace("__", "/"),
            text,
            hash: fingerprint.text(),
            described: OnceLock::new(),
        }
    };
    recorded::DOCUMENTS.iter().map(document).collect()
});

pub(super) fn documents() -> impl Iterator<Item = &'static Document> {
    HASHED.iter()
}

pub(super) fn document(path: &str) -> Option<&'static Document> {
    documents().find(|document| document.path == path)
}

#[cfg(test)]
mod tests {
    use kopf_sandbox_kinds::builtin::builtin;

    use super::*;

    #[test]
    fn every_built_in_group_has_its_document() {
        let kinds = builtin();
        for kind in kinds.iter() {
            for version in &kind.versions {
                let prefix = if kind.group.is_empty() { "api" } else { "apis" };
                let path = format!("{prefix}/{}", kind.api_version(&version.name));
                assert!(document(&path).is_some(), "{path}");
            }
        }
    }
}
