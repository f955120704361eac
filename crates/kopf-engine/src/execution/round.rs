//! One round: calls of the due handlers that the lifecycle selects, one after another.

use std::sync::Arc;

use kopf_core::handler::HandlerId;
use kopf_core::lifecycle::{self, Candidate};
use kopf_core::object::reconciling::triggers_of_deletion;
use kopf_core::progress::state::State;

use super::{Execution, PriorAttempts, Subs};
use crate::invocation::Handler;

impl Execution {
    /// Calls the due handlers and updates the state. Returns `true` if any was due and this replica
    /// may still call them.
    pub(crate) async fn round(
        &self,
        handlers: &[Arc<Handler>],
        state: &mut State,
    ) -> Result<bool, lifecycle::Error> {
        self.round_of(None, handlers, state).await
    }

    /// Like [`round`](Self::round), for the sub-handlers of a handler.
    pub(super) async fn round_of(
        &self,
        parent: Option<&Subs>,
        handlers: &[Arc<Handler>],
        state: &mut State,
    ) -> Result<bool, lifecycle::Error> {
        let clock = self.executor.context.clock;
        let now = clock.now();
        let due: Vec<&Arc<Handler>> = handlers
            .iter()
            .filter(|handler| state.is_awake(&handler.id, now))
            .collect();
        if due.is_empty() {
            return Ok(false);
        }
        let mut done: Vec<&HandlerId> = Vec::with_capacity(due.len());
        for handler in self.pick(&due, state)? {
            // A custom lifecycle may pick a handler twice; it runs once per round.
            if done.contains(&&handler.id) {
                continue;
            }
            // Another replica continues from the stored records.
            if !self.may_begin().await {
                return Ok(!done.is_empty());
            }
            done.push(&handler.id);
            // A record of another operator may lack the start time.
            let (retries, started) = state.attempt(&handler.id).unwrap_or((0, now));
            let prior = PriorAttempts { retries, started };
            let before = self.contributions.before(&self.patch);
            let outcome = if handler.kind.reconciliation().is_some() {
                let is_woken = self.woken.contains(&handler.id);
                let triggers = triggers_of_deletion(state.record(&handler.id), is_woken);
                self.reconciled_deletion(handler, triggers, prior).await
            } else {
                let subs = Subs::new(self, handler, parent.cloned());
                // Boxed because rounds of sub-handlers run inside this one.
                Box::pin(self.attempt(handler, prior, Some(subs))).await
            };
            self.deliver(handler, &outcome);
            self.contributions.add(handler, before, &self.patch);
            state.apply(&handler.id, &outcome, clock.now());
            self.attempts.add(&handler.id, state.record(&handler.id));
        }
        Ok(true)
    }

    fn pick<'a>(
        &self,
        due: &[&'a Arc<Handler>],
        state: &State,
    ) -> Result<Vec<&'a Arc<Handler>>, lifecycle::Error> {
        let candidates: Vec<Candidate<'_>> = due
            .iter()
            .map(|handler| {
                let retries = state.attempt(&handler.id).map_or(0, |(retries, _)| retries);
                Candidate::new(&handler.id, retries)
            })
            .collect();
        let picked = self
            .lifecycle
            .try_pick(&candidates, &self.cause, &self.filtering())?;
        let picked = picked.into_iter();
        Ok(picked.filter_map(|index| due.get(index).copied()).collect())
    }
}
