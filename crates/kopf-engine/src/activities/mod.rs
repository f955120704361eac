//! Activities of the operator: startup, cleanup, authentication, probing.
//!
//! The handlers of an activity are called one after another. Handlers to be retried are called in
//! the next round, when the first of them is due. Their progress is kept in memory only. The
//! activity ends when all its handlers have finished; it fails if any of them has failed
//! permanently.

mod outcome;
mod startup_cleanup;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_core::handler::{Activity, HandlerId};
use kopf_core::outcome::Outcome;
use tokio::time::{Instant, sleep_until};

pub use self::outcome::{Error, Finished, Returned};
pub(crate) use self::startup_cleanup::{cleanup, startup};
use crate::execution::{AttemptContext, BlockingPool, PriorAttempts};
use crate::invocation::{Handler, OperatorContext, Registry, Slot, Subject};
use crate::logger::ObjectLogger;

/// All handlers of one activity, ready to be called.
#[derive(Debug, Clone)]
pub(crate) struct Activities {
    activity: Activity,
    handlers: Vec<Arc<Handler>>,
    pool: BlockingPool,
}

impl Activities {
    pub(crate) fn new(activity: Activity, registry: &Registry, pool: BlockingPool) -> Self {
        Self {
            activity,
            handlers: registry.activities(activity),
            pool,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.handlers.is_empty()
    }

    /// Calls all handlers until all are finished. Returns their results in the order of the
    /// handlers.
    ///
    /// `context` is called before every attempt, because the context can change between attempts.
    ///
    /// # Cancellation
    /// Dropping the future aborts the current call and skips the others.
    pub(crate) async fn run(
        &self,
        mut context: impl FnMut() -> Arc<OperatorContext>,
    ) -> Result<Finished, Error> {
        let logger = ObjectLogger::of_activity(self.activity);
        let mut steps: Vec<Step<'_>> = self.handlers.iter().map(Step::new).collect();
        loop {
            for step in &mut steps {
                if step.is_due() {
                    step.take(&context(), self.activity, &self.pool, &logger)
                        .await;
                }
            }
            match steps.iter().filter_map(Step::due).min() {
                Some(due) => sleep_until(due).await,
                None => break,
            }
        }
        let returned = steps.into_iter().filter_map(Step::finish).collect();
        Finished::new(self.activity, returned)
    }
}

/// An unfinished handler of an activity.
struct Step<'a> {
    handler: &'a Arc<Handler>,
    started: Option<Timestamp>,
    retries: u32,
    state: State,
}

enum State {
    /// The time of the next attempt.
    Due(Instant),
    Finished {
        outcome: Box<Outcome>,
        slot: Slot,
    },
}

impl<'a> Step<'a> {
    fn new(handler: &'a Arc<Handler>) -> Self {
        Self {
            handler,
            started: None,
            retries: 0,
            state: State::Due(Instant::now()),
        }
    }

    fn due(&self) -> Option<Instant> {
        match self.state {
            State::Due(due) => Some(due),
            State::Finished { .. } => None,
        }
    }

    fn is_due(&self) -> bool {
        self.due().is_some_and(|due| due <= Instant::now())
    }

    async fn take(
        &mut self,
        context: &Arc<OperatorContext>,
        activity: Activity,
        pool: &BlockingPool,
        logger: &ObjectLogger,
    ) {
        let now = context.clock.now();
        let before = PriorAttempts {
            retries: self.retries,
            started: *self.started.get_or_insert(now),
        };
        let slot = Slot::default();
        let subject = Subject::Activity(activity);
        let calling = AttemptContext::new(context, pool, logger, subject).with_slot(slot.clone());
        let outcome = calling.attempt(self.handler, before).await;
        self.retries = self.retries.saturating_add(1);
        self.state = if outcome.is_final {
            let outcome = Box::new(outcome);
            State::Finished { outcome, slot }
        } else {
            State::Due(later(outcome.delay.unwrap_or_default()))
        };
    }

    fn finish(self) -> Option<(HandlerId, Outcome, Slot)> {
        match self.state {
            State::Finished { outcome, slot } => {
                Some((Arc::clone(&self.handler.id), *outcome, slot))
            }
            State::Due(_) => None,
        }
    }
}

/// Returns the time after a delay. Delays that overflow are capped.
fn later(delay: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(delay)
        .unwrap_or_else(|| now + Duration::from_secs(86_400 * 365))
}

#[cfg(test)]
mod tests;
