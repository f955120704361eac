//! The diff-base in several storages, e.g. for a migration.

use std::sync::Arc;

use serde_json::Value;

use super::{DiffBaseStorage, StorageError};
use crate::body::Body;
use crate::essence;
use crate::field::FieldPath;
use crate::key_order::KeyOrder;
use crate::keys::KeyNaming;
use crate::patch::Patch;

/// A chain of storages: writes to all of them, reads from the first one that has a diff-base.
///
/// The essence goes through [`build`](DiffBaseStorage::build) of every storage in order: each one gets
/// the object with the essence left by the storages before it.
#[derive(Clone, Debug, Default)]
pub struct MultiDiffBaseStorage {
    storages: Vec<Arc<dyn DiffBaseStorage>>,
}

impl MultiDiffBaseStorage {
    /// Returns a chain of these storages, the preferred one first.
    pub fn new(storages: impl IntoIterator<Item = Arc<dyn DiffBaseStorage>>) -> Self {
        Self {
            storages: storages.into_iter().collect(),
        }
    }
}

impl DiffBaseStorage for MultiDiffBaseStorage {
    fn naming(&self) -> Option<&KeyNaming> {
        self.storages.iter().find_map(|storage| storage.naming())
    }

    fn build(&self, body: &Body, extra_fields: &[FieldPath]) -> Result<Value, StorageError> {
        let mut essence = essence::build(body, extra_fields, &[])?;
        for storage in &self.storages {
            if storage.is_usual() {
                // The same as `build`, without copying the object.
                storage.strip(body, &mut essence);
            } else {
                essence = storage.build(&essence::graft(body, essence), extra_fields)?;
            }
        }
        Ok(essence)
    }

    fn is_usual(&self) -> bool {
        self.storages.iter().all(|storage| storage.is_usual())
    }

    fn strip(&self, body: &Body, essence: &mut Value) {
        for storage in &self.storages {
            storage.strip(body, essence);
        }
    }

    fn fetch(&self, body: &Body) -> Result<Option<Value>, StorageError> {
        for storage in &self.storages {
            if let Some(essence) = storage.fetch(body)? {
                return Ok(Some(essence));
            }
        }
        Ok(None)
    }

    fn is_stored(&self, body: &Body, essence: &Value) -> bool {
        // The others are read only if the first one has nothing.
        self.storages
            .first()
            .is_some_and(|storage| storage.is_stored(body, essence))
    }

    fn key_order(&self, body: &Body) -> Option<Arc<KeyOrder>> {
        let mut storages = self.storages.iter();
        storages.find_map(|storage| storage.key_order(body))
    }

    fn store(&self, body: &Body, patch: &mut Patch, essence: &Value) -> Result<(), StorageError> {
        self.storages
            .iter()
            .try_for_each(|storage| storage.store(body, patch, essence))
    }
}
