//! Warnings in responses.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Warnings that `kubectl` prints. Cheap to clone: clones share the list.
///
/// ```
/// let warnings = kopf_engine::admission::Warnings::default();
/// warnings.clone().push("this field is going away");
/// assert_eq!(warnings.list(), ["this field is going away"]);
/// ```
#[derive(Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Appends a warning.
    pub fn push(&self, warning: impl Into<String>) {
        let warning = warning.into();
        self.lock().push(warning);
    }

    /// Returns all warnings.
    pub fn list(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        // No code that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().fmt(f)
    }
}
