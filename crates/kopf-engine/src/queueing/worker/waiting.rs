//! What a worker waits for when it has no events.

use std::time::Duration;

use kopf_client::patching::Answer;
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::wording;
use tokio::time::Instant;

use super::super::versions::covers;
use super::Worker;
use super::writing::Unsent;
use crate::inspect::Counted;
use crate::logger::ObjectLogger;
use crate::processing::{Error, Pending};

/// Longer than any operator runs, and short enough to be added to any time.
const A_LIFETIME: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// With what is not written yet, trying again is not up to the settings.
const RESEND: Duration = Duration::from_secs(1);

/// When to go on without an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wake {
    pub(super) at: Instant,
    pub(super) why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// A handler is due.
    Due,
    /// There is more to decide.
    Again,
    /// Transformations were refused. The event that was in the way comes earlier, normally.
    Refused,
    /// Something has failed, and is to be tried again; not earlier, whatever happens.
    Failed,
}

/// An own write is to be seen before changes are handled.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) deadline: Instant,
    /// What the server has said to the write.
    pub(super) answer: Answer,
    /// Whether something is left to do if it does not come back.
    pub(super) unfinished: bool,
}

/// Delays come from users and from annotations, and can be absurd.
pub(super) fn after(delay: Duration) -> Instant {
    Instant::now() + delay.min(A_LIFETIME)
}

impl Worker {
    pub(super) fn next_moment(&self) -> Option<Instant> {
        let wake = self.wake.as_ref().map(|wake| wake.at);
        let gate = self.gate.as_ref().map(|gate| gate.deadline);
        match (wake, gate) {
            // Nothing happens after a failure before its time has come.
            (Some(wake), Some(gate)) if self.is_held_back() => Some(wake.max(gate)),
            (Some(wake), Some(gate)) => Some(wake.min(gate)),
            (wake, gate) => wake.or(gate),
        }
    }

    /// Whether there is anything to wait for. While the operator is paused, nothing begins because
    /// its time has come: the object may be another operator's now, and is listed anew after that.
    /// What has come out of handlers is still written.
    pub(super) fn may_go_on(&mut self) -> bool {
        if !self.kind.shared.pause.is_paused() {
            return true;
        }
        if self.unsent.is_none()
            && !self.from_events.is_empty()
            && let Some((_, body)) = &self.newest
        {
            let patch = std::mem::take(&mut self.from_events);
            let pending = Pending::new(patch, &self.kind.resource);
            self.unsent = Some(Unsent::new(pending, Vec::new(), true, body));
        }
        self.unsent.is_some()
    }

    /// Sleeping for a handler's delay is no work; all other waiting is.
    pub(super) fn counted(&self) -> Counted {
        match &self.wake {
            Some(wake) if wake.why == Why::Due && self.gate.is_none() => Counted::Sleeping,
            _ => Counted::Working,
        }
    }

    /// Whether it waits for something that may come earlier.
    pub(super) fn is_asleep(&self) -> bool {
        matches!(self.wake, Some(Wake { why: Why::Due, .. }))
    }

    /// It has come earlier.
    pub(super) fn wake_up(&mut self) {
        if let Some(wake) = &mut self.wake {
            wake.at = Instant::now();
        }
    }

    /// Whether it is too early to try again after a failure.
    pub(super) fn is_held_back(&self) -> bool {
        matches!(self.wake, Some(Wake { at, why: Why::Failed }) if at > Instant::now())
    }

    /// The time has come for what was waited for.
    pub(super) async fn on_time(&mut self) {
        let holding = self.hold().await;
        let now = Instant::now();
        // Should events have come while waiting for the turn, they take over.
        if !self.mailbox.is_empty() {
            return;
        }
        let wake = self.wake.take_if(|wake| wake.at <= now);
        if let Some(gate) = self.gate.take_if(|gate| gate.deadline <= now) {
            self.mailbox.expect_nothing();
            if is_newer(gate.answer.part(), self.newest.as_ref())
                && let Ok(body) = gate.answer.body()
            {
                self.newest = Some((EventType::Modified, body));
            }
            if !gate.unfinished && wake.is_none() {
                return;
            }
        } else if wake.is_none() {
            return;
        }
        if wake.is_some_and(|wake| wake.why == Why::Failed)
            && let Some(logger) = &self.logger
        {
            logger.local().info(wording::THROTTLING_OVER);
        }
        let touching = self.kind.shared.context.settings.persistence.touching;
        if touching && wake.is_some_and(|wake| wake.why == Why::Due) {
            self.touch(holding).await;
        } else {
            let consistent = self.gate.is_none();
            self.cycle(holding, consistent).await;
        }
    }

    /// Something has failed that is no handler's fault.
    pub(super) fn fail(&mut self, error: &Error) {
        let delays = &self.kind.shared.context.settings.queueing.error_delays;
        let delay = delays.get(self.failures).or(delays.last()).copied();
        let delay = delay.or_else(|| self.unsent.is_some().then_some(RESEND));
        self.failures = self.failures.saturating_add(1);
        self.wake = delay.map(|delay| Wake {
            at: after(delay),
            why: Why::Failed,
        });
        self.report(error, delay);
    }

    pub(super) fn report(&self, error: &Error, delay: Option<Duration>) {
        let error = error.chain();
        let Some(logger) = self.logger.as_ref().map(ObjectLogger::local) else {
            tracing::error!(
                "An object of {} is not processed: {error}",
                self.kind.resource
            );
            return;
        };
        match delay {
            Some(delay) => logger.error(wording::throttling(delay, error)),
            None => logger.error(format_args!("Processing has failed: {error}")),
        }
    }
}

fn is_newer(answer: &Body, known: Option<&(EventType, Body)>) -> bool {
    let Some((_, known)) = known else { return true };
    match (known.resource_version(), answer.resource_version()) {
        (Some(known), Some(answer)) => !covers(known, answer),
        _ => true,
    }
}
