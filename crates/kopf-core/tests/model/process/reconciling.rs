//! Reconcile handlers of a process, and the children that trigger them.

use std::sync::Arc;

use kopf_core::handler::HandlerId;
use kopf_core::object::reconciling::Reconciling;
use kopf_core::object::{Input, Moment, Rules};
use kopf_core::patch::Patch;
use kopf_core::trigger::Requeue;
use serde_json::json;

use super::{Operator, Phase, Process, Relay, Returns, both};
use crate::handlers::{RETRY, attempt, timestamp};
use crate::mutations::Mutation;

impl<R: Rules> Operator<R> {
    /// Takes a changed child.
    pub(crate) fn take_child(&self, process: &mut Process, now: Moment) {
        let ids: Vec<HandlerId> = self
            .handlers
            .changing
            .iter()
            .map(|id| (*id).into())
            .collect();
        process.object.wake(ids.iter());
        let reconciling = self.policy.handlers.reconciling.iter();
        let triggered = reconciling.map(|handler| &handler.id);
        if !self.has(Mutation::ChildForgotten) {
            process.object.trigger_by_child(triggered);
        }
        let mut patch = Patch::default();
        patch.status_mut().insert("child".to_owned(), json!(true));
        process.object.patch_by_children(patch);
        self.catch_up(process, now);
    }

    /// Calls the reconcile handler that is due.
    pub(super) fn reconcile(
        &self,
        process: &mut Process,
        relay: &mut Relay,
        now: Moment,
    ) -> Option<Input> {
        let mut reconciling = relay.reconciling.take()?;
        let begun = reconciling.begin(self.means(), &process.object, both(now));
        let Some(call) = begun.unwrap() else {
            let ended = reconciling.postponed(&process.object, both(now));
            return Some(self.end(process, ended, false, relay));
        };
        process.phase = Phase::Reconciling {
            handler: HandlerId::clone(&call.handler.id),
            reconciling: Arc::new(reconciling),
        };
        None
    }

    /// Handles the return of a reconcile handler.
    pub(super) fn return_from_reconciliation(
        &self,
        process: &mut Process,
        (id, reconciling): (&str, Arc<Reconciling>),
        returns: Returns,
        now: Moment,
    ) {
        let mut reconciling = Arc::unwrap_or_clone(reconciling);
        let outcome = attempt(returns != Returns::Error);
        reconciling.progress.apply(id, &outcome, timestamp(now));
        let requeue = match returns {
            Returns::Requeue if !self.has(Mutation::RequestForgotten) => Requeue::after(RETRY),
            Returns::Requeue | Returns::Success | Returns::Error => Requeue::never(),
        };
        let mut handlers = self.policy.handlers.reconciling.iter();
        let handler = handlers.find(|handler| *handler.id == *id).unwrap();
        let (means, object) = (self.means(), &mut process.object);
        let ended = reconciling.conclude(means, object, handler, requeue, both(now));
        let mut relay = Relay::default();
        let input = self.end(process, ended, true, &mut relay);
        self.feed_with(process, input, relay, now);
    }
}
