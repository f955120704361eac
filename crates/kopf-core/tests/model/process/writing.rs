//! Requests of a process, and the responses to them.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::object::{Effect, FinalizerChange, Input, Moment, Response, Rules, WritePlan};

use super::{Operator, Phase, Process, Relay, newest};
use crate::mutations::Mutation;
use crate::server::{Outcome, Request};

impl<R: Rules> Operator<R> {
    pub(super) fn write(
        &self,
        process: &mut Process,
        change: Option<FinalizerChange>,
        relay: &mut Relay,
    ) {
        let (body, settled) = (newest(process), relay.settled.take());
        let object = &mut process.object;
        let (plan, untouched) = object.plan_write(&self.policy, &body, change, settled);
        untouched.unwrap();
        self.send(process, plan);
    }

    pub(super) fn send(&self, process: &mut Process, plan: WritePlan) {
        let request = Request {
            plan,
            base: Arc::new(newest(process).value().clone()),
            merged: None,
            last: serde_json::Map::new(),
            is_guarded: self.has(Mutation::OutcomeForgotten),
        };
        let outcome = None;
        process.phase = Phase::Sending { request, outcome };
    }

    /// Handles the response to a request.
    pub(crate) fn respond(&self, process: &mut Process, now: Moment) {
        let phase = std::mem::take(&mut process.phase);
        let Phase::Sending {
            request,
            outcome: Some(outcome),
        } = phase
        else {
            process.phase = phase;
            return;
        };
        let (before, plan) = (newest(process), request.plan);
        let input = match outcome {
            Outcome::NotFound => Input::NotFound,
            Outcome::Accepted(after) => {
                if let (true, Some(release)) = (plan.is_release, &mut process.object.memory.release)
                {
                    release.note_removed();
                }
                let response = after.map_or(Response::NONE, |after| {
                    process.response = Some(Arc::clone(&after));
                    let (memory, after) = (&process.object.memory, Body::from(after));
                    let whole = || Some(after.clone());
                    plan.judge(&self.policy, memory, (&before, &after), whole)
                });
                Input::Written(self.misjudged(response))
            }
            Outcome::Conflict(after) => {
                process.object.carry(plan.patch.fns);
                if self.has(Mutation::CarriedForgotten) {
                    process.object.memory.carried.clear();
                }
                Input::Conflicted(after.map(|after| {
                    process.response = Some(Arc::clone(&after));
                    WritePlan::judge_part(&before, &Body::from(after))
                }))
            }
        };
        self.feed(process, input, now);
    }

    fn misjudged(&self, response: Response) -> Response {
        let is_settled =
            self.has(Mutation::EverythingSettled) && response.effect == Effect::Changed;
        let effect = if is_settled {
            Effect::Settled
        } else {
            response.effect
        };
        Response { effect, ..response }
    }

    /// Handles a failed request, or a lost response.
    pub(crate) fn fail_write(&self, process: &mut Process, rejected: bool, now: Moment) {
        let Phase::Sending {
            mut request,
            outcome,
        } = std::mem::take(&mut process.phase)
        else {
            return;
        };
        if outcome.is_some() {
            request.plan.patch.merge = std::mem::take(&mut request.last);
        }
        process.unsent = Some(request);
        self.feed(process, Input::WriteFailed { rejected }, now);
    }
}
