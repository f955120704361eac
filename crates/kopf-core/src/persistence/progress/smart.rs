//! The default progress storage: annotations, and the migration from the status.

use serde_json::Value;

use super::{
    AnnotationsProgressStorage, ProgressRecord, ProgressStorage, StatusProgressStorage,
    StorageError,
};
use crate::body::Body;
use crate::keys;
use crate::patch::Patch;

/// A storage in annotations. Records of older operators in the status are read (if there is none in
/// the annotations), and purged at the end, but never written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmartProgressStorage {
    annotations: AnnotationsProgressStorage,
    status: StatusProgressStorage,
}

impl SmartProgressStorage {
    /// Creates a storage in annotations under the prefix.
    pub fn new(prefix: impl Into<String>) -> Result<Self, keys::Error> {
        Ok(Self::of(
            AnnotationsProgressStorage::new(prefix)?,
            StatusProgressStorage::default(),
        ))
    }

    /// Combines the storage for writing and the storage to migrate from.
    pub fn of(annotations: AnnotationsProgressStorage, status: StatusProgressStorage) -> Self {
        Self {
            annotations,
            status,
        }
    }
}

impl ProgressStorage for SmartProgressStorage {
    fn leaves_no_trace(&self) -> bool {
        self.annotations.leaves_no_trace()
    }

    fn fetch(&self, key: &str, body: &Body) -> Result<Option<ProgressRecord>, StorageError> {
        match self.annotations.fetch(key, body)? {
            Some(record) => Ok(Some(record)),
            None => self.status.fetch(key, body),
        }
    }

    fn store(
        &self,
        key: &str,
        record: &ProgressRecord,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError> {
        self.annotations.store(key, record, body, patch)
    }

    fn purge(&self, key: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        self.annotations.purge(key, body, patch)?;
        self.status.purge(key, body, patch)
    }

    fn touch(
        &self,
        body: &Body,
        patch: &mut Patch,
        value: Option<&str>,
    ) -> Result<(), StorageError> {
        self.annotations.touch(body, patch, value)
    }

    fn clear(&self, essence: &mut Value) -> Result<(), StorageError> {
        self.annotations.clear(essence)?;
        self.status.clear(essence)
    }

    fn shorten(&self, body: &Body, patch: &mut Patch, limit: usize) -> Result<(), StorageError> {
        self.annotations.shorten(body, patch, limit)
    }

    fn check_id(&self, id: &str) -> Result<(), StorageError> {
        self.annotations.check_id(id)
    }
}
