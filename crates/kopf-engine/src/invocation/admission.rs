//! Admission requests for handlers and filters.

use std::fmt;
use std::sync::Arc;

use kopf_core::admission::Review;
use kopf_core::cause::Cause;
use kopf_core::sync::Mutex;

/// An admission request.
#[non_exhaustive]
pub struct Admission {
    /// The object, as for handlers of all kinds.
    pub cause: Arc<Cause>,
    /// The request.
    pub review: Review,
    /// Warnings for the client, sent with any response. Shared by all handlers of the request.
    pub warnings: Warnings,
}

impl Admission {
    /// Creates a request without warnings.
    pub(crate) fn new(review: Review) -> Self {
        Self {
            cause: Arc::new(review.cause()),
            review,
            warnings: Warnings::default(),
        }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.review.fmt(f)
    }
}

/// Warnings for the client of an admission request, as printed by `kubectl`. Cheap to clone: clones
/// share the list.
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
        self.0.lock().push(warning);
    }

    /// Returns all warnings so far.
    pub fn list(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.lock().fmt(f)
    }
}
