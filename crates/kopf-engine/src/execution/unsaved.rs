//! Records of sub-handlers that an asynchronous storage has not saved yet.

use std::sync::Arc;

use kopf_core::progress::ProgressChanges;
use kopf_core::sync::Mutex;

/// Collects the records of sub-handlers in one cycle, to be saved together with those of their
/// parents. Cheap to clone: clones share the records.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnsavedRecords(Arc<Mutex<ProgressChanges>>);

impl UnsavedRecords {
    /// Adds later changes.
    pub(super) fn add(&self, changes: ProgressChanges) {
        let mut records = self.0.lock();
        records.extend(changes);
    }

    /// Takes all changes.
    pub(crate) fn take(&self) -> ProgressChanges {
        std::mem::take(&mut self.0.lock())
    }
}
