//! Progress in several storages, e.g. for a migration.

use std::sync::Arc;

use serde_json::Value;

use super::{ProgressRecord, ProgressStorage, StorageError};
use crate::body::Body;
use crate::field::FieldPath;
use crate::patch::Patch;

/// A chain of storages: writes to all of them, reads from the first one that has a record.
#[derive(Clone, Debug, Default)]
pub struct MultiProgressStorage {
    storages: Vec<Arc<dyn ProgressStorage>>,
}

impl MultiProgressStorage {
    /// Creates a chain of storages, the preferred one first.
    pub fn new(storages: impl IntoIterator<Item = Arc<dyn ProgressStorage>>) -> Self {
        Self {
            storages: storages.into_iter().collect(),
        }
    }
}

impl ProgressStorage for MultiProgressStorage {
    fn status_field(&self) -> Option<&FieldPath> {
        let mut fields = self.storages.iter().map(|storage| storage.status_field());
        let first = fields.next()??;
        fields.all(|field| field.is_some()).then_some(first)
    }

    fn leaves_no_trace(&self) -> bool {
        self.storages
            .iter()
            .all(|storage| storage.leaves_no_trace())
    }

    fn fetch(&self, key: &str, body: &Body) -> Result<Option<ProgressRecord>, StorageError> {
        for storage in &self.storages {
            if let Some(record) = storage.fetch(key, body)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    fn store(
        &self,
        key: &str,
        record: &ProgressRecord,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError> {
        self.storages
            .iter()
            .try_for_each(|storage| storage.store(key, record, body, patch))
    }

    fn purge(&self, key: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        self.storages
            .iter()
            .try_for_each(|storage| storage.purge(key, body, patch))
    }

    fn touch(
        &self,
        body: &Body,
        patch: &mut Patch,
        value: Option<&str>,
    ) -> Result<(), StorageError> {
        self.storages
            .iter()
            .try_for_each(|storage| storage.touch(body, patch, value))
    }

    fn clear(&self, essence: &mut Value) -> Result<(), StorageError> {
        self.storages
            .iter()
            .try_for_each(|storage| storage.clear(essence))
    }

    fn shorten(&self, body: &Body, patch: &mut Patch, limit: usize) -> Result<(), StorageError> {
        self.storages
            .iter()
            .try_for_each(|storage| storage.shorten(body, patch, limit))
    }

    fn check_id(&self, id: &str) -> Result<(), StorageError> {
        self.storages
            .iter()
            .try_for_each(|storage| storage.check_id(id))
    }

    fn flush(&self) -> Result<(), StorageError> {
        self.storages.iter().try_for_each(|storage| storage.flush())
    }
}
