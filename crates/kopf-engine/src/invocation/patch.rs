//! The patch of one cycle.

use std::sync::{Arc, Mutex, PoisonError};

use kopf_core::patch::Patch;

/// The patch of one cycle, shared by all its handlers. Cheap to clone: clones are the same patch.
#[derive(Debug, Clone, Default)]
pub struct SharedPatch(Arc<Mutex<Patch>>);

impl SharedPatch {
    /// Starts with this patch.
    pub fn new(patch: Patch) -> Self {
        Self(Arc::new(Mutex::new(patch)))
    }

    /// Reads or changes the patch. Must not be nested: the second call would wait forever.
    pub fn with<R>(&self, action: impl FnOnce(&mut Patch) -> R) -> R {
        // A handler that panicked amid a change has left a valid, if incomplete, patch.
        action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes everything out of the patch. Later changes are never written.
    pub fn take(&self) -> Patch {
        self.with(std::mem::take)
    }
}
