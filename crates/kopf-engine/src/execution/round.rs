//! One round: those of the handlers that are due and chosen, one after another.

use std::sync::Arc;

use kopf_core::handler::HandlerId;
use kopf_core::lifecycle::Candidate;
use kopf_core::progress::state::State;

use super::attempt::Before;
use super::{Execution, SubHandlers};
use crate::invocation::Handler;

impl Execution {
    /// Runs what is due, and brings the state up to date. Returns whether anything was due.
    pub(crate) async fn round(
        &self,
        handlers: &[Arc<Handler>],
        state: &mut State,
        parent: Option<&SubHandlers>,
    ) -> bool {
        let context = &self.shared.context;
        let now = context.clock.now();
        let due: Vec<&Arc<Handler>> = handlers
            .iter()
            .filter(|handler| state.is_awake(&handler.id, now))
            .collect();
        if due.is_empty() {
            return false;
        }
        let candidates: Vec<Candidate<'_>> = due
            .iter()
            .map(|handler| Candidate {
                id: &handler.id,
                retries: state.attempt(&handler.id).map_or(0, |(retries, _)| retries),
            })
            .collect();
        let picked = self
            .lifecycle
            .pick(&candidates, &self.cause, &self.context());
        let mut done: Vec<&HandlerId> = Vec::with_capacity(picked.len());
        for handler in picked.into_iter().filter_map(|index| due.get(index)) {
            // A custom lifecycle may name one twice; once per round is the rule.
            if done.contains(&&handler.id) {
                continue;
            }
            done.push(&handler.id);
            // A record that others have written may not say when it began.
            let (retries, started) = state.attempt(&handler.id).unwrap_or((0, now));
            let subs = SubHandlers::new(self, handler, parent.cloned());
            let before = Before { retries, started };
            // Sub-handlers run inside of handlers, and so do rounds inside of rounds.
            let outcome = Box::pin(self.attempt(handler, before, Some(subs))).await;
            self.deliver(handler, &outcome);
            state.apply(&handler.id, &outcome, context.clock.now());
            self.attempts.add(&handler.id, state.record(&handler.id));
        }
        true
    }
}
