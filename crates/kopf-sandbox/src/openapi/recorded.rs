//! OpenAPI documents of built-in groups, as recorded from a real server.

use std::sync::{LazyLock, OnceLock};

use bytes::Bytes;
use serde_json::Value;

use super::{Fingerprint, texts};

/// The name of a file is the path of the document with `__` for `/`.
macro_rules! document {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../data/openapi/v3/", $name, ".json")),
        )
    };
}

/// About 1 MB of the binary. Read when a client requests a document or writes an object.
static DOCUMENTS: &[(&str, &str)] = &[
    document!("api__v1"),
    document!("apis__admissionregistration.k8s.io__v1"),
    document!("apis__apiextensions.k8s.io__v1"),
    document!("apis__apiregistration.k8s.io__v1"),
    document!("apis__apps__v1"),
    document!("apis__authentication.k8s.io__v1"),
    document!("apis__authorization.k8s.io__v1"),
    document!("apis__autoscaling__v1"),
    document!("apis__autoscaling__v2"),
    document!("apis__batch__v1"),
    document!("apis__certificates.k8s.io__v1"),
    document!("apis__coordination.k8s.io__v1"),
    document!("apis__discovery.k8s.io__v1"),
    document!("apis__events.k8s.io__v1"),
    document!("apis__flowcontrol.apiserver.k8s.io__v1"),
    document!("apis__networking.k8s.io__v1"),
    document!("apis__node.k8s.io__v1"),
    document!("apis__policy__v1"),
    document!("apis__rbac.authorization.k8s.io__v1"),
    document!("apis__resource.k8s.io__v1"),
    document!("apis__scheduling.k8s.io__v1"),
    document!("apis__storage.k8s.io__v1"),
];

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
    DOCUMENTS.iter().map(document).collect()
});

pub(super) fn documents() -> impl Iterator<Item = &'static Document> {
    HASHED.iter()
}

/// Returns a recorded document without descriptions, and without hashing any.
pub(crate) fn text(path: &str) -> Option<&'static str> {
    let name = path.replace('/', "__");
    DOCUMENTS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

pub(super) fn document(path: &str) -> Option<&'static Document> {
    documents().find(|document| document.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin;

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
