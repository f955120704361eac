//! Calls of reconcile handlers: attempts with triggers, and their requests for another call.

use std::sync::Arc;

use kopf_core::outcome::Outcome;
use kopf_core::trigger::{Requeue, Triggers};

use super::{Execution, PriorAttempts};
use crate::invocation::{Handler, Slot};

/// The outcome of a reconcile handler.
pub(crate) struct Reconciled {
    pub(crate) outcome: Outcome,
    /// The request that the function has stored in the slot.
    pub(crate) requeue: Requeue,
}

impl Execution {
    /// Calls a reconcile handler once for a deletion, which ends only after the requested calls.
    pub(super) async fn reconciled_deletion(
        &self,
        handler: &Arc<Handler>,
        triggers: Triggers,
        prior: PriorAttempts,
    ) -> Outcome {
        let slot = Slot::default();
        let execution = Self {
            slot: slot.clone(),
            triggers,
            ..self.clone()
        };
        let outcome = execution.attempt(handler, prior, None).await;
        outcome.continued(slot.take().unwrap_or_default())
    }

    /// Calls a reconcile handler once; `None` if another replica handles the object.
    pub(crate) async fn reconciled(
        &self,
        handler: &Arc<Handler>,
        triggers: Triggers,
        prior: PriorAttempts,
    ) -> Option<Reconciled> {
        if !self.may_begin().await {
            return None;
        }
        let slot = Slot::default();
        let execution = Self {
            slot: slot.clone(),
            triggers,
            ..self.clone()
        };
        let before = self.contributions.before(&self.patch);
        let outcome = execution.attempt(handler, prior, None).await;
        self.deliver(handler, &outcome);
        self.contributions.add(handler, before, &self.patch);
        Some(Reconciled {
            outcome,
            requeue: slot.take().unwrap_or_default(),
        })
    }
}
