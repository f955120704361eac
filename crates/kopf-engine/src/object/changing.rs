//! Calls of the change handlers in one cycle.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kopf_core::cause::{Cause, Change, Reason};
use kopf_core::handler::HandlerId;
use kopf_core::object::attempted::settle_prediction;
use kopf_core::object::handling::{
    Attempted, Attempts, Concluded, Conclusion, Handling, RunnerExits,
};
use kopf_core::object::{Handled, Input, Release};
use kopf_core::patch::Patch;
use kopf_core::secrets::{is_secret, redact_body, redact_diff};
use kopf_core::storage::StorageError;
use kopf_core::wording::{self, Style};
use serde_json::Value;

use super::driver::Driver;
use super::persisting::Unsaved;
use super::planning::Cycle;
use super::{ObjectPermit, ResourceContext};
use crate::error::Error;
use crate::errors::describe;
use crate::execution::{Execution, describe_panic};
use crate::invocation::{FilterContext, Handler};
use crate::leading::Pass;
use crate::logger::ObjectLogger;

/// The result of one cycle.
pub(super) struct CycleOutcome {
    /// The delay until the next handler is due; `None` if all have finished.
    pub(super) due: Option<Duration>,
    /// Some handlers were called.
    pub(super) attempted: bool,
    /// The framework failed after the handlers were called. The cycle must be repeated.
    pub(super) failed: bool,
}

impl Driver {
    /// Calls the due handlers of the current cycle and adds their results to the patch.
    pub(super) async fn run_handlers(
        &mut self,
        reason: Reason,
        permit: &mut ObjectPermit,
    ) -> Input {
        let (Some(cycle), Some(pass)) = (self.cycle.take(), self.pass.clone()) else {
            return Input::NoVersion;
        };
        let before = (self.patch.clone(), self.origins.contributed.clone());
        let mut cycle = *cycle;
        let handling = self.handle(reason, &mut cycle, pass, permit);
        let failure = match AssertUnwindSafe(handling).catch_unwind().await {
            Ok(Ok(outcome)) => {
                self.unsaved.merge_from(cycle.sessions.take_unsaved());
                return Input::HandlersFinished(Handled {
                    due: outcome.due,
                    attempted: outcome.attempted,
                    patch: self.pending_patch(),
                    failed: outcome.failed,
                });
            }
            Ok(Err(error)) => error,
            Err(panic) => Error::Panic(describe_panic(&*panic)),
        };
        // A failed cycle writes and saves nothing.
        (self.patch, self.origins.contributed) = before;
        self.origins.recorded.clear();
        self.unsaved = Unsaved::default();
        self.failure = Some(failure);
        Input::Failed
    }

    async fn handle(
        &mut self,
        reason: Reason,
        cycle: &mut Cycle,
        pass: Pass,
        permit: &mut ObjectPermit,
    ) -> Result<CycleOutcome, Error> {
        let context = Arc::clone(&self.context);
        let logger = &self.logger(&cycle.cause.body).clone();
        if cycle.is_outdated(&context) {
            return self.rebase(&context, cycle, logger);
        }
        if let Some(outcome) = self.accept_request(&context, cycle)? {
            return Ok(outcome);
        }
        let operator = &context.shared.context;
        let memo = self.state.memo(&operator.memo);
        let filtering = FilterContext::new(Arc::clone(operator), memo.clone(), logger);
        let mut handlers = context.handlers.selected(&cycle.cause, &filtering)?;
        if let Some(requested) = &cycle.requested {
            handlers = requested.join(handlers);
        }
        self.supersede(&context, cycle, &handlers, logger)?;
        let woken: Arc<[HandlerId]> = std::mem::take(&mut self.origins.woken).into();
        cycle.progress.wake(&woken);
        log_beginning(&cycle.cause, operator.style, logger);
        if handlers.is_empty() {
            return self.handle_without_handlers(&context, cycle, logger);
        }
        let executor = &context.shared.executor;
        let patch = std::mem::take(&mut self.patch);
        let cause = cycle.cause.clone();
        let execution = Execution::new(executor, cause, logger.clone(), memo)
            .with_patch(patch)
            .with_woken(woken)
            .with_pass(pass);
        permit.release();
        let attempted = execution.round(&handlers, &mut cycle.progress).await;
        permit.reacquire().await;
        // From here on, failures must not lose the results of handlers.
        self.patch = execution.patch.take();
        self.unsaved.records = execution.unsaved.take();
        self.contribute(execution.contributions.take());
        let attempted = attempted?;
        let mut attempts = execution.attempts.take();
        self.refuse_annotations(cycle, &mut attempts, logger)?;
        self.state
            .note_errors(&operator.metrics, &attempts, &cycle.progress);
        self.conclude_request(&context, cycle);
        let runner_exits = self.runner_exits;
        let mut concluded = self.conclude(&context, cycle, &attempts, runner_exits);
        if let Ok(concluded) = &mut concluded {
            self.note_release(cycle, concluded);
        }
        if !is_purged(&concluded) {
            self.origins.recorded = attempts;
        }
        Ok(self.evaluate(reason, cycle, concluded, attempted, logger))
    }

    /// Activates the handlers of the cause, and takes over or purges the records of other causes.
    fn supersede(
        &mut self,
        context: &ResourceContext,
        cycle: &mut Cycle,
        handlers: &[Arc<Handler>],
        logger: &ObjectLogger,
    ) -> Result<(), Error> {
        let mut progress = std::mem::take(&mut cycle.progress);
        let ids = handlers.iter().map(|handler| &handler.id);
        let now = context.shared.context.clock.now();
        let superseded = match handling(context, cycle) {
            Some(handling) => handling.supersede(&mut progress, ids, now, &mut self.patch)?,
            None => Vec::new(),
        };
        cycle.progress = progress;
        let Some(change) = &cycle.cause.change else {
            return Ok(());
        };
        for extra in superseded {
            logger.info(wording::superseded(
                &extra.purpose,
                change.reason,
                extra.succeeded,
                extra.failed,
                extra.left,
            ));
        }
        Ok(())
    }

    /// Adds the progress, the diff-base and the attempted essences to the patch.
    fn conclude(
        &mut self,
        context: &ResourceContext,
        cycle: &Cycle,
        attempts: &[Attempted],
        runner_exits: RunnerExits,
    ) -> Result<Concluded, Error> {
        let Some(handling) = handling(context, cycle) else {
            return Ok(Concluded::FINISHED);
        };
        let unconcluded = std::mem::take(&mut self.patch);
        let mut patch = unconcluded.clone();
        let attempts = Attempts {
            prior: &cycle.attempted,
            made: attempts,
            after: &|| essence_after(context, cycle, &unconcluded),
        };
        let concluded = handling.conclude(&cycle.progress, attempts, runner_exits, &mut patch);
        match concluded {
            Ok(concluded) => {
                self.patch = patch;
                Ok(concluded)
            }
            Err(error) => {
                drop(cycle.sessions.take_unsaved());
                self.patch = unconcluded.clone();
                // Without a diff-base, the records are the only evidence that handlers have
                // finished.
                let (storage, patch) = (handling.storages.progress, &mut self.patch);
                let stored = cycle.progress.store(storage, handling.body, patch);
                if stored.is_ok() && !matches!(error, StorageError::TooLarge { .. }) {
                    // Finished handlers must not miss the changes until the next attempt. An
                    // essence that does not fit would not fit into the next diff-base either.
                    let oversized = handling.note_attempts(attempts, patch);
                    self.state.attempted = oversized.map(Box::new);
                }
                Err(stored.err().unwrap_or(error).into())
            }
        }
    }

    /// Evaluates and logs the conclusion of a cycle.
    fn evaluate(
        &mut self,
        reason: Reason,
        cycle: &Cycle,
        concluded: Result<Concluded, Error>,
        attempted: bool,
        logger: &ObjectLogger,
    ) -> CycleOutcome {
        let mut outcome = CycleOutcome {
            due: None,
            attempted,
            failed: false,
        };
        let now = self.context.shared.context.clock.now();
        let is_done = cycle.progress.is_done();
        let conclusion = match concluded {
            Ok(concluded) => {
                let conclusion = concluded.conclusion;
                self.note_unstored(concluded, logger);
                conclusion
            }
            Err(error) => {
                self.failure = Some(error);
                outcome.failed = true;
                if is_done {
                    Conclusion::Finished
                } else {
                    Conclusion::Unfinished
                }
            }
        };
        match conclusion {
            Conclusion::Unfinished => outcome.due = cycle.progress.delays(now).into_iter().min(),
            Conclusion::Kept => {}
            Conclusion::Outdated => outcome.due = Some(Duration::ZERO),
            Conclusion::Finished | Conclusion::UpdateFollows => {
                let counts = cycle.progress.counts();
                // A repeated attempt to store the diff-base is not logged again.
                if attempted || !outcome.failed {
                    logger.info(wording::processed(reason, counts.succeeded, counts.failed));
                }
                if !outcome.failed {
                    self.state.fully_handled_once = true;
                }
                if conclusion == Conclusion::UpdateFollows {
                    outcome.due = Some(Duration::ZERO);
                } else if !outcome.failed {
                    self.settled = cycle.essences().map(|essences| Arc::clone(essences.new));
                }
            }
        }
        outcome
    }

    /// Stores the essence as handled if no handlers match the change.
    fn handle_without_handlers(
        &mut self,
        context: &ResourceContext,
        cycle: &Cycle,
        logger: &ObjectLogger,
    ) -> Result<CycleOutcome, Error> {
        self.state.fully_handled_once = true;
        if let Some(handling) = handling(context, cycle) {
            let new = handling.essences.new;
            let is_outdated = !cycle.attempted.outdated(new).is_empty();
            if is_outdated && handling.reason != Reason::Delete {
                return self.rebase(context, cycle, logger);
            }
            if self.tracks_attempts(handling.body) {
                // Records that were carried over to this update are obsolete.
                let mut concluded = handling.finish(&cycle.progress, &mut self.patch)?;
                self.note_release(cycle, &mut concluded);
                self.note_unstored(concluded, logger);
            } else {
                let unstored = handling.store_base(new, &mut self.patch)?;
                handling.drop_untracked(&mut self.patch);
                warn_unstored(unstored.as_ref(), logger);
            }
        }
        Ok(CycleOutcome {
            due: None,
            attempted: false,
            failed: false,
        })
    }

    /// Stores a diff-base from which the missed changes result in an update.
    fn rebase(
        &mut self,
        context: &ResourceContext,
        cycle: &Cycle,
        logger: &ObjectLogger,
    ) -> Result<CycleOutcome, Error> {
        if let Some(handling) = handling(context, cycle) {
            let (progress, patch) = (&cycle.progress, &mut self.patch);
            let concluded = handling.follow_up(progress, &cycle.attempted, patch)?;
            self.note_unstored(concluded, logger);
        }
        Ok(CycleOutcome {
            due: Some(Duration::ZERO),
            attempted: false,
            failed: false,
        })
    }

    /// Keeps the outcome of a finished deletion until the object is gone.
    fn note_release(&mut self, cycle: &Cycle, concluded: &mut Concluded) {
        if let Some(erasure) = concluded.erasure.take() {
            let owned = self.context.handlers.owned();
            let release = Release::new(&cycle.progress, owned, erasure);
            self.state.release = Some(Box::new(release));
        }
    }

    fn note_unstored(&mut self, concluded: Concluded, logger: &ObjectLogger) {
        warn_unstored(concluded.unstored_base.as_ref(), logger);
        if concluded.oversized.is_some() && self.state.attempted.is_none() {
            logger.warning(
                "The essences that handlers were called with are too large for an annotation and \
                 are kept in memory: changes that arrive while handlers are retried can be lost \
                 if the operator restarts.",
            );
        }
        self.state.attempted = concluded.oversized.map(Box::new);
    }
}

/// Returns `true` if the patch has no progress records, because all handlers have finished.
fn is_purged(concluded: &Result<Concluded, Error>) -> bool {
    let conclusion = concluded.as_ref().map(|concluded| concluded.conclusion);
    matches!(
        conclusion,
        Ok(Conclusion::Finished | Conclusion::UpdateFollows)
    )
}

pub(super) fn handling<'a>(context: &'a ResourceContext, cycle: &'a Cycle) -> Option<Handling<'a>> {
    Some(Handling {
        storages: cycle.sessions.storages(context),
        body: &cycle.cause.body,
        reason: cycle.cause.change.as_ref()?.reason,
        essences: cycle.essences()?,
        owned: context.handlers.owned(),
    })
}

/// Returns the essence with the patch of the cycle applied; the current essence if that fails.
fn essence_after(context: &ResourceContext, cycle: &Cycle, patch: &Patch) -> Arc<Value> {
    let current = match cycle.essences() {
        Some(essences) => Arc::clone(essences.new),
        None => Arc::new(Value::Null),
    };
    if patch.is_empty() {
        return current;
    }
    let after = patch.applied_to(&cycle.cause.body);
    let predicted = after.ok().and_then(|body| context.essence(&body).ok());
    let old = cycle.essences().and_then(|essences| essences.old);
    match predicted {
        Some(predicted) => Arc::new(settle_prediction(old, &current, &predicted)),
        None => current,
    }
}

fn warn_unstored(error: Option<&StorageError>, logger: &ObjectLogger) {
    if let Some(error) = error {
        let error = describe(error);
        logger.warning(format_args!("The diff-base is not stored: {error}"));
    }
}

fn log_beginning(cause: &Cause, style: Style, logger: &ObjectLogger) {
    let Some(change) = &cause.change else { return };
    if !logger.is_debug_enabled() {
        return;
    }
    let Change { reason, old, .. } = change;
    let is_secret = is_secret(&cause.resource);
    let body = cause.body.value();
    if is_secret {
        logger.debug(wording::in_progress(*reason, &redact_body(body), style));
    } else {
        logger.debug(wording::in_progress(*reason, body, style));
    }
    if old.is_some() && !change.diff.is_empty() {
        let diff = if is_secret {
            redact_diff(&change.diff)
        } else {
            change.diff.clone()
        };
        logger.debug(wording::diff(*reason, &diff, style));
    }
}
