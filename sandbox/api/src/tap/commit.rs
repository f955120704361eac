//! Commits as a tap sees them.

use std::fmt;
use std::sync::Arc;

use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_store::objects;
use serde_json::Value;

use crate::store::{Change, Stored, uid_of};

/// One version of an object. Clones share the content.
#[derive(Clone)]
pub struct ObjectVersion {
    stored: Arc<Stored>,
}

impl fmt::Debug for ObjectVersion {
    /// Omits the content: it may be a secret, and `Debug` output is logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stored.fmt(f)
    }
}

impl ObjectVersion {
    pub(crate) fn new(stored: Arc<Stored>) -> Self {
        Self { stored }
    }

    /// Returns the API group of the kind; empty for the core group.
    pub fn group(&self) -> &str {
        &self.stored.kind.group
    }

    /// Returns the plural name of the resource.
    pub fn resource(&self) -> &str {
        &self.stored.kind.plural
    }

    /// Returns the name of the kind.
    pub fn kind(&self) -> &str {
        &self.stored.kind.kind
    }

    /// Returns the namespace; `None` for cluster-scoped objects.
    pub fn namespace(&self) -> Option<&str> {
        self.stored.key.namespace()
    }

    /// Returns the name of the object.
    pub fn name(&self) -> &str {
        &self.stored.key.name
    }

    /// Returns the resource version.
    pub fn revision(&self) -> u64 {
        self.stored.revision
    }

    /// Returns the uid of the object.
    pub fn uid(&self) -> String {
        uid_of(&self.stored.raw)
    }

    /// Returns the object in JSON, in the version in which it is stored.
    pub fn bytes(&self) -> &[u8] {
        &self.stored.raw
    }

    /// Parses the object, in the version in which it is stored.
    pub fn json(&self) -> Value {
        self.stored.value()
    }
}

/// A committed change of one object.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Commit {
    /// The revision of the change. Revisions of all objects form one sequence.
    pub revision: u64,
    /// The type of the change.
    pub change: Change,
    /// The state before the change; `None` for creations.
    pub before: Option<ObjectVersion>,
    /// The state after the change; for deletions, the last state.
    pub object: ObjectVersion,
    /// The [number](super::TapRequest::number) of the request that caused it. `None` for changes by
    /// the server: its controllers, and consequences such as the status of a CRD.
    pub cause: Option<u64>,
}

impl Commit {
    pub(super) fn of(commit: &objects::Commit<Kind>) -> Self {
        let entry = &commit.entry;
        Self {
            revision: entry.revision(),
            change: entry.change,
            before: entry.previous.clone().map(ObjectVersion::new),
            object: ObjectVersion::new(Arc::clone(&entry.object)),
            cause: commit.cause,
        }
    }
}
