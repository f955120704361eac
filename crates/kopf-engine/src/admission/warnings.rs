//! What is told to the one who asks, whatever the answer is.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Warnings, as `kubectl` prints them. Cheap to clone: clones are the same list.
///
/// ```
/// let warnings = kopf_engine::admission::Warnings::default();
/// warnings.clone().push("this field is going away");
/// assert_eq!(warnings.list(), ["this field is going away"]);
/// ```
#[derive(Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds one to the end.
    pub fn push(&self, warning: impl Into<String>) {
        let warning = warning.into();
        self.lock().push(warning);
    }

    /// All of them so far.
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
