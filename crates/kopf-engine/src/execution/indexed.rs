//! Calls of index handlers: attempts without progress records and results.

use std::sync::Arc;

use kopf_core::outcome::Outcome;

use super::{Execution, PriorAttempts};
use crate::indexing::Entries;
use crate::invocation::{Handler, Slot};

/// The outcome of an index handler.
pub(crate) struct Indexed {
    pub(crate) outcome: Outcome,
    /// The entries that the function has stored in the slot.
    pub(crate) entries: Option<Entries>,
}

impl Execution {
    /// Calls an index handler once.
    pub(crate) async fn indexed(&self, handler: &Arc<Handler>, prior: PriorAttempts) -> Indexed {
        let slot = Slot::default();
        let execution = Self {
            slot: slot.clone(),
            ..self.clone()
        };
        let outcome = execution.attempt(handler, prior, None).await;
        Indexed {
            outcome,
            entries: slot.take(),
        }
    }
}
