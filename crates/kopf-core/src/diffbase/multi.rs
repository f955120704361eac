//! The diff-base in several places at once, e.g. while moving from one to another.

use std::sync::Arc;

use serde_json::Value;

use super::{DiffBaseStorage, StorageError};
use crate::body::Body;
use crate::keys::KeyNaming;
use crate::patch::Patch;

/// Writes to all storages, reads from the first one that has something.
///
/// The essence is the usual one, without what any of the storages keeps or ignores.
#[derive(Clone, Debug, Default)]
pub struct MultiDiffBaseStorage {
    storages: Vec<Arc<dyn DiffBaseStorage>>,
}

impl MultiDiffBaseStorage {
    /// Puts several storages together, the preferred one first.
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
        // The first storage is the first to be read; the others count only if it has nothing.
        self.storages
            .first()
            .is_some_and(|storage| storage.is_stored(body, essence))
    }

    fn store(&self, body: &Body, patch: &mut Patch, essence: &Value) -> Result<(), StorageError> {
        self.storages
            .iter()
            .try_for_each(|storage| storage.store(body, patch, essence))
    }
}
