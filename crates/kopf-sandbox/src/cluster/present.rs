//! Stored objects as a client sees them: in the version that it speaks, under the schema of today.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::Cluster;
use crate::kinds::{Kind, conversion};
use crate::store::Stored;

impl Cluster {
    /// Whether the stored bytes are what a client of this version gets.
    pub(crate) fn is_as_stored(stored: &Stored, kind: &Arc<Kind>, version: &str) -> bool {
        Arc::ptr_eq(&stored.kind, kind) && &*kind.storage_version == version
    }

    /// The object in a version of its kind.
    pub(crate) fn object(stored: &Stored, kind: &Arc<Kind>, version: &str) -> Value {
        let mut object = stored.value();
        if !Self::is_as_stored(stored, kind, version) {
            let stored_version = Arc::clone(&stored.kind.storage_version);
            conversion::convert(&mut object, &stored.kind, &stored_version, kind, version);
            // The schema may have changed since the object was written: new defaults show at once.
            if let Some(schema) = kind
                .version(version)
                .and_then(|version| version.schema.as_ref())
            {
                schema.default(&mut object);
                schema.prune(&mut object);
            }
        }
        object
    }

    /// The serialised object in a version of its kind.
    pub(crate) fn bytes(stored: &Stored, kind: &Arc<Kind>, version: &str) -> Bytes {
        if Self::is_as_stored(stored, kind, version) {
            return stored.raw.clone();
        }
        Bytes::from(Self::object(stored, kind, version).to_string())
    }
}
