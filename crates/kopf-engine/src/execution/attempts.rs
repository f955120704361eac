//! The attempts of one cycle.

use std::sync::Arc;

use kopf_core::handler::HandlerId;
use kopf_core::object::handling::Attempted;
use kopf_core::progress::ProgressRecord;
use kopf_core::sync::Mutex;

/// Collects the attempts of handlers and sub-handlers in one cycle. Cheap to clone: clones share
/// the attempts.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttemptLog(Arc<Mutex<Vec<Attempted>>>);

impl AttemptLog {
    /// Adds an attempt with the resulting progress record.
    pub(crate) fn add(&self, id: &HandlerId, record: Option<&ProgressRecord>) {
        let Some(record) = record else { return };
        let attempt = Attempted {
            id: Arc::clone(id),
            record: record.clone(),
        };
        let mut attempts = self.0.lock();
        attempts.push(attempt);
    }

    /// Takes all attempts.
    pub(crate) fn take(&self) -> Vec<Attempted> {
        std::mem::take(&mut self.0.lock())
    }
}
