//! Handlers that keep indices: attempts without progress on the object, and without results.

use std::sync::Arc;

use jiff::Timestamp;
use kopf_core::outcome::Outcome;

use super::Execution;
use super::attempt::Before;
use crate::indexing::Entries;
use crate::invocation::{Handler, Slot};

impl Execution {
    /// Runs a handler after so many attempts since the given moment. Tells what has come of it, and
    /// which entries the function has left.
    pub(crate) async fn indexed(
        &self,
        handler: &Arc<Handler>,
        (retries, started): (u32, Timestamp),
    ) -> (Outcome, Option<Entries>) {
        let slot = Slot::default();
        let execution = Self {
            slot: slot.clone(),
            ..self.clone()
        };
        let before = Before { retries, started };
        let outcome = execution.attempt(handler, before, None).await;
        (outcome, slot.take())
    }
}
