//! Writing of what was decided, until it is written.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kopf_core::body::Body;
use kopf_core::patch::Patch;
use kopf_core::settled;
use kopf_core::wording;
use serde_json::Value;
use tokio::time::sleep;

use super::super::mailbox::Awaited;
use super::super::own::Own;
use super::waiting::{Gate, Wake, Why, after};
use super::{Holding, Worker};
use crate::logger::ObjectLogger;
use crate::processing::{Applied, Error, Pending};

/// A server that takes longer is in trouble, and must not hold up the objects of others.
const SLOW: Duration = Duration::from_secs(1);

/// Where a write changes nothing, the next one is not to follow at once.
const AT_LEAST: Duration = Duration::from_secs(1);

/// What is to be written, and what is to be known after that.
#[derive(Debug)]
pub(super) struct Unsent {
    pending: Pending,
    delays: Vec<Duration>,
    /// Whether something else is to be decided after it.
    pub(super) more: bool,
    /// The essence that is stored by it as handled, if nothing is left to do after it.
    pub(super) settled: Option<Arc<Value>>,
    /// Whether the server will never take it.
    hopeless: bool,
    /// Which state of the object it was decided on.
    state: (Option<i64>, bool),
}

impl Unsent {
    pub(super) fn new(pending: Pending, delays: Vec<Duration>, more: bool, body: &Body) -> Self {
        Self {
            pending,
            delays,
            more,
            settled: None,
            hopeless: false,
            state: state(body),
        }
    }
}

/// What somebody wants the object to be: its generation, and whether it is to be.
fn state(body: &Body) -> (Option<i64>, bool) {
    let generation = body.metadata().get("generation");
    (generation.and_then(Value::as_i64), body.is_deleting())
}

impl Worker {
    /// Writes all that can be written. What is not accepted stays, and is tried again later.
    pub(super) async fn write(&mut self, mut unsent: Unsent, mut holding: Holding) {
        let Some((_, body)) = self.newest.clone() else {
            return;
        };
        let logger = self.logger(&body).clone();
        let context = Arc::clone(&self.kind.shared.context);
        let applied = {
            let resource = &self.kind.resource;
            let mut applying = pin!(unsent.pending.apply(
                &context.client,
                resource,
                &body,
                &logger
            ));
            tokio::select! {
                biased;
                applied = &mut applying => applied,
                () = sleep(SLOW) => {
                    holding.give_away();
                    applying.await
                }
            }
        };
        let (answer, refused) = match applied {
            Err(error) => {
                unsent.hopeless = error.is_refusal();
                self.unsent = Some(unsent);
                return self.fail(&error);
            }
            Ok(Applied::NotFound) => {
                // It is gone, and somebody will tell.
                logger.local().debug(wording::PATCH_SKIPPED);
                self.memory.remaining.clear();
                (self.failures, self.refusals) = (0, 0);
                (self.newest, self.gate) = (None, None);
                self.mailbox.expect_nothing();
                return;
            }
            Ok(Applied::Accepted { answer }) => {
                self.memory.remaining.clear();
                self.refusals = 0;
                (answer, false)
            }
            Ok(Applied::Refused { answer, functions }) => {
                self.memory.remaining = functions;
                (answer, true)
            }
        };
        self.failures = 0;
        if let Some(delay) = unsent.delays.iter().min().filter(|delay| !delay.is_zero()) {
            logger.local().debug(wording::sleeping_skipped(*delay));
        }
        let timeout = context.settings.persistence.consistency_timeout;
        if let Some(answer) = &answer
            && !refused
            && self.is_settled(&unsent, &body, answer.part())
            && let Some(own) = answer.part().resource_version()
            && let Some(own) = Own::new(own, after(timeout))
        {
            self.settle(own, &logger);
            return;
        }
        let awaited = answer
            .filter(|_| !timeout.is_zero())
            .filter(|answer| self.mailbox.expect(awaited(answer.part())));
        let unfinished = unsent.more || refused || !unsent.delays.is_empty();
        let before = self.gate.as_ref().is_some_and(|gate| gate.unfinished);
        if let Some(answer) = awaited {
            self.gate = Some(Gate {
                deadline: after(timeout),
                answer,
                unfinished: before || unfinished,
            });
        } else if let Some(gate) = &mut self.gate {
            gate.unfinished |= unfinished;
        } else if refused {
            // The event that is in the way comes earlier, normally.
            let delays = &context.settings.queueing.error_delays;
            let delay = delays.get(self.refusals).or(delays.last());
            self.wake = Some(Wake {
                at: after(delay.copied().unwrap_or_default().max(AT_LEAST)),
                why: Why::Refused,
            });
        } else if unsent.more {
            self.go_on_at_once();
        } else if let Some(delay) = unsent.delays.iter().min() {
            // No event will come by this write: it has changed nothing, or has come already. If
            // it was to store the progress, going on at once would go on forever.
            self.wake = Some(Wake {
                at: after((*delay).max(AT_LEAST)),
                why: Why::Due,
            });
        }
        if refused {
            self.refusals = self.refusals.saturating_add(1);
        }
    }

    /// Whether the own write has left nothing to do, so that it need not be seen again.
    fn is_settled(&self, unsent: &Unsent, before: &Body, after: &Body) -> bool {
        let Some(handled) = &unsent.settled else {
            return false;
        };
        let persistence = &self.kind.shared.context.settings.persistence;
        !unsent.more
            && unsent.delays.is_empty()
            && self.memory.fully_handled_once
            && self.wake.is_none()
            && !self.gate.as_ref().is_some_and(|gate| gate.unfinished)
            && self.kind.handlers.look_at_essences_only()
            && settled::is_settled(
                handled,
                before,
                after,
                persistence.diffbase_storage.as_ref(),
                persistence.progress_storage.as_ref(),
            )
    }

    /// Says what would be said about the event of the own write, which is not waited for.
    fn settle(&mut self, own: Own, logger: &ObjectLogger) {
        self.memory.own = Some(own);
        self.gate = None;
        self.mailbox.expect_nothing();
        self.mailbox.discard(|entry| own.covers(entry));
        logger.debug(wording::NOOP);
        logger.local().debug(wording::CYCLE_FINISHED);
    }

    /// What the server will never take is given up when the object is no longer what it was decided
    /// on: otherwise it could not even be deleted.
    pub(super) fn give_up_what_is_hopeless(&mut self) {
        let Some((_, body)) = &self.newest else {
            return;
        };
        let given_up = self
            .unsent
            .take_if(|unsent| unsent.hopeless && unsent.state != state(body));
        if given_up.is_some() {
            self.wake = None;
            self.report(&Error::GivenUp, None);
        }
    }

    /// Wakes the object up by a change of its own, as the original does.
    pub(super) async fn touch(&mut self, holding: Holding) {
        let Some((_, body)) = self.newest.clone() else {
            return;
        };
        let context = Arc::clone(&self.kind.shared.context);
        let now = kopf_core::timestamp::format(context.clock.now());
        let mut patch = Patch::default();
        let storage = &context.settings.persistence.progress_storage;
        if let Err(error) = storage.touch(&body, &mut patch, Some(&now)) {
            return self.fail(&error.into());
        }
        if patch.is_empty() {
            // A storage that touches nothing: there will be no event.
            return self.cycle(holding, self.gate.is_none()).await;
        }
        let pending = Pending::new(patch, &self.kind.resource);
        let unsent = Unsent::new(pending, Vec::new(), true, &body);
        self.write(unsent, holding).await;
    }
}

/// What will tell that an own write has come back.
fn awaited(answer: &Body) -> Awaited {
    let vanishing = answer.is_deleting() && answer.finalizers().next().is_none();
    match answer.resource_version() {
        Some(version) if !vanishing => Awaited::Version(version.into()),
        _ => Awaited::End,
    }
}
