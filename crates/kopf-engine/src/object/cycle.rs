//! One cycle of an object: its facts, its runners, and the calls of its change handlers. What
//! happens in which order is decided by `kopf_core::object::cycle`.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use kopf_core::body::Body;
use kopf_core::cause::{Cause, Change};
use kopf_core::object::cycle::{Begun, Calls, Ended, Means, Note};
use kopf_core::object::handling::Attempted;
use kopf_core::object::{Facts, Handled, Input, PendingPatch, Runners, Survey, Version};
use kopf_core::patch::Patch;
use kopf_core::progress::state::State;
use kopf_core::secrets::{is_secret, redact_body, redact_diff};
use kopf_core::sizes::{
    ANNOTATIONS_LIMIT, annotations_size, patched_annotations, size_of_annotations,
};
use kopf_core::storage::StorageError;
use kopf_core::wording::{self, Style};

use super::active::{Active, OpenCycle, Relay, Results};
use super::context::{ObjectPermit, ResourceContext};
use super::reconciling::OpenReconciliation;
use super::runners::{Tended, Tending, tend};
use super::sessions::Sessions;
use crate::error::Error;
use crate::errors::describe;
use crate::execution::{Contribution, describe_panic, warn_unreadable};
use crate::invocation::{FilterContext, Function};
use crate::logger::ObjectLogger;

impl Active {
    /// Tends the runners, and collects the facts about the newest version.
    pub(super) async fn plan(&mut self, relay: &mut Relay, permit: &mut ObjectPermit) -> Input {
        let Some(version) = self.object.newest.clone() else {
            return Input::NoVersion;
        };
        let logger = self.logger(&version.body).clone();
        let gathering = AssertUnwindSafe(self.gather(&version, &logger, relay, permit));
        let failure = match gathering.catch_unwind().await {
            Ok(Ok(facts)) => return Input::Planned(facts),
            Ok(Err(error)) => error,
            Err(panic) => {
                permit.reacquire().await;
                Error::Panic(describe_panic(&*panic))
            }
        };
        relay.failure = Some(failure);
        Input::Failed
    }

    async fn gather(
        &mut self,
        version: &Version,
        logger: &ObjectLogger,
        relay: &mut Relay,
        permit: &mut ObjectPermit,
    ) -> Result<Facts, Error> {
        let context = Arc::clone(&self.base.context);
        let tending = Tending {
            event: version.event,
            body: &version.body,
            logger,
            pass: &self.pass,
        };
        let tended = tend(&context, &mut self.base.state, tending, permit).await?;
        let Tended { runners, failure } = tended;
        relay.failure = failure;
        let memory = &self.object.memory;
        if let Some(released) = Survey::of_released(&context.policy, memory, version) {
            let now = context.both_times();
            return Ok(released.facts(&self.object, version, runners, now));
        }
        let surveying = self.survey(version, runners, logger);
        let surveyed = permit.during(surveying).await;
        permit.reacquire().await;
        let (mut survey, sessions) = surveyed?;
        if let Some(reconciling) = survey.reconciling.take() {
            let loading = OpenReconciliation::load(&context, reconciling, version, logger);
            let loaded = permit.during(loading).await;
            permit.reacquire().await;
            let (reconciling, sessions) = loaded?;
            let open = OpenReconciliation::new(reconciling.clone(), sessions);
            relay.reconciling = Some(Box::new(open));
            survey.reconciling = Some(reconciling);
        }
        let facts = survey.facts(&self.object, version, runners, context.both_times());
        relay.cycle = survey.cycle.map(|cycle| {
            Box::new(OpenCycle {
                cycle,
                sessions,
                runners,
            })
        });
        Ok(facts)
    }

    /// Looks at the newest version, and loads the progress of its handlers.
    async fn survey(
        &mut self,
        version: &Version,
        runners: Runners,
        logger: &ObjectLogger,
    ) -> Result<(Survey, Sessions), Error> {
        let context = Arc::clone(&self.base.context);
        let mut sessions = Sessions::open(&context, version, logger).await?;
        let filtering = context.filtering(&self.base.memo(), logger);
        let mut notes = Vec::new();
        let means = means(&context, &sessions, &filtering);
        let survey = Survey::new(
            means,
            &mut self.object,
            version,
            runners,
            context.now(),
            &mut notes,
        );
        self.log_notes(notes, None, logger);
        let mut survey = survey?;
        let is_optional = survey.is_progress_optional();
        if let Some(cycle) = &mut survey.cycle
            && let Some(ids) = cycle.recall(&context.policy, &self.object.memory)
        {
            let body = version.body.clone();
            let opened = sessions.load_progress(&context, &ids, &body).await;
            let loaded = match opened {
                Ok(()) => {
                    let storages = sessions.storages(&context);
                    cycle.load(&context.policy, storages).map_err(Error::from)
                }
                Err(error) => Err(error),
            };
            if !is_optional {
                loaded?;
            }
            for error in cycle.progress.unreadable() {
                warn_unreadable(error, logger);
            }
        }
        Ok((survey, sessions))
    }

    /// Calls the due handlers of the planned cycle and adds their results to the patch.
    pub(super) async fn run_handlers(
        &mut self,
        relay: &mut Relay,
        permit: &mut ObjectPermit,
    ) -> Input {
        let Some(mut open) = relay.cycle.take() else {
            return Input::NoVersion;
        };
        let before = (self.object.patch.clone(), self.contributed.clone());
        let handling = AssertUnwindSafe(self.handle(&mut open, relay, permit));
        let failure = match handling.catch_unwind().await {
            Ok(Ok((mut ended, attempted))) => {
                relay.results.settled = ended.settled.take();
                return self.finished(relay, &mut open.sessions, ended, attempted);
            }
            Ok(Err(error)) => error,
            Err(panic) => Error::Panic(describe_panic(&*panic)),
        };
        self.failed(relay, before, failure)
    }

    /// Passes on the results of the called handlers.
    pub(super) fn finished(
        &self,
        relay: &mut Relay,
        sessions: &mut Sessions,
        ended: Ended,
        attempted: bool,
    ) -> Input {
        relay.results.unsaved.merge_from(sessions.take_unsaved());
        let failed = ended.failure.is_some();
        if let Some(error) = ended.failure {
            relay.failure = Some(error.into());
        }
        let is_empty = self.object.patch.is_empty() && relay.results.unsaved.is_empty();
        Input::HandlersFinished(Handled {
            due: ended.due,
            attempted,
            patch: PendingPatch::new(is_empty),
            failed,
        })
    }

    /// Restores what was there before the handlers: a failed cycle writes and saves nothing.
    pub(super) fn failed(
        &mut self,
        relay: &mut Relay,
        before: (Patch, Vec<Contribution>),
        failure: Error,
    ) -> Input {
        (self.object.patch, self.contributed) = before;
        relay.results = Results::default();
        relay.failure = Some(failure);
        Input::Failed
    }

    async fn handle(
        &mut self,
        open: &mut OpenCycle,
        relay: &mut Relay,
        permit: &mut ObjectPermit,
    ) -> Result<(Ended, bool), Error> {
        let context = Arc::clone(&self.base.context);
        let OpenCycle {
            cycle,
            sessions,
            runners,
        } = open;
        let logger = &self.logger(&cycle.cause.body).clone();
        let operator = &context.shared.context;
        let filtering = context.filtering(&self.base.memo(), logger);
        let mut notes = Vec::new();
        let now = operator.clock.now();
        let begun = cycle.begin(
            means(&context, sessions, &filtering),
            &mut self.object,
            now,
            &mut notes,
        );
        self.log_notes(notes, Some(&cycle.cause), logger);
        let (handlers, woken) = match begun? {
            Begun::Call { handlers, woken } => (handlers, woken),
            Begun::Ended(ended) => return Ok((ended, false)),
        };
        let patch = std::mem::take(&mut self.object.patch);
        let execution = self
            .execution(cycle.cause.clone(), logger)
            .with_patch(patch)
            .with_woken(woken.into())
            .with_pass(self.pass.clone());
        permit.release();
        let attempted = execution.round(&handlers, &mut cycle.progress).await;
        permit.reacquire().await;
        // From here on, failures must not lose the results of handlers.
        self.object.patch = execution.patch.take();
        relay.results.unsaved.records = execution.unsaved.take();
        self.contribute(execution.contributions.take());
        let attempted = attempted?;
        let mut made = execution.attempts.take();
        let body = cycle.cause.body.clone();
        let progress = (&body, &mut cycle.progress);
        self.refuse_annotations(progress, &mut made, &mut relay.results, logger)?;
        let state = &mut self.base.state;
        state.note_errors(&operator.metrics, &made, &cycle.progress);
        let calls = Calls {
            made: &made,
            any: attempted,
            exits: runners.exits(),
            ended: operator.clock.now(),
        };
        let mut notes = Vec::new();
        let discard = || drop(sessions.take_unsaved());
        let means = means(&context, sessions, &filtering);
        let ended = cycle.conclude(means, &mut self.object, &calls, discard, &mut notes);
        self.log_notes(notes, None, logger);
        if ended.is_recorded {
            relay.results.recorded = made;
        }
        Ok((ended, attempted))
    }

    /// Drops the contributions with which the annotations of the object would be too large, so that
    /// there is room for the progress.
    pub(super) fn refuse_annotations(
        &mut self,
        (body, progress): (&Body, &mut State),
        attempts: &mut [Attempted],
        results: &mut Results,
        logger: &ObjectLogger,
    ) -> Result<(), Error> {
        let context = Arc::clone(&self.base.context);
        let patch = &mut self.object.patch;
        loop {
            let size = annotations_size(body, &[&*patch]);
            if size <= ANNOTATIONS_LIMIT {
                return Ok(());
            }
            let share = |part: &Patch| patched_annotations(part).map_or(0, size_of_annotations);
            let Some(largest) = Contribution::take_largest(&mut self.contributed, share) else {
                return Ok(());
            };
            let message = format!(
                "with its changes, the annotations of the object would have {size} bytes, and may \
                 have {ANNOTATIONS_LIMIT}"
            );
            largest.report(&message, logger);
            patch.subtract(&largest.part);
            let now = context.shared.context.clock.now();
            let is_known = progress.fail(&largest.id, &message, now);
            let attempt = attempts.iter_mut().find(|one| one.id == largest.id);
            let Some(attempt) = attempt else { continue };
            attempt.record.fail(&message, now);
            if is_known {
                continue;
            }
            // A sub-handler, whose record is in the patch already.
            let storage = &context.policy.persistence().progress_storage;
            if storage.asynchronous().is_some() {
                let record = Some(attempt.record.clone());
                let records = &mut results.unsaved.records;
                records.insert(largest.id.to_string(), record);
            } else {
                storage.store(&largest.id, &attempt.record, body, patch)?;
            }
        }
    }

    /// Adds the contributions of handlers to those of the current patch.
    pub(super) fn contribute(&mut self, contributions: Vec<Contribution>) {
        for contribution in contributions {
            contribution.join(&mut self.contributed);
        }
    }

    fn log_notes(&self, notes: Vec<Note>, cause: Option<&Cause>, logger: &ObjectLogger) {
        let style = self.base.context.shared.context.style;
        for note in notes {
            match note {
                Note::Unreadable(error) => warn_unreadable(&error, logger),
                Note::UnknownRequest(names) => logger.warning(format_args!(
                    "The request to retrigger [{}] is ignored: there is no such handler of \
                     creations, updates, resuming or reconciliation.",
                    names.join(", ")
                )),
                Note::Superseded(extra, reason) => logger.info(wording::superseded(
                    &extra.purpose,
                    reason,
                    extra.succeeded,
                    extra.failed,
                    extra.left,
                )),
                Note::Selected => {
                    if let Some(cause) = cause {
                        log_beginning(cause, style, logger);
                    }
                }
                Note::Unstored(error) => warn_unstored(&error, logger),
                Note::Oversized => logger.warning(
                    "The essences that handlers were called with are too large for an annotation \
                     and are kept in memory: changes that arrive while handlers are retried can \
                     be lost if the operator restarts.",
                ),
                Note::Processed(reason, counts) => {
                    let message = wording::processed(reason, counts.succeeded, counts.failed);
                    logger.info(message);
                }
            }
        }
    }
}

pub(super) fn means<'a>(
    context: &'a ResourceContext,
    sessions: &'a Sessions,
    filters: &'a FilterContext,
) -> Means<'a, Function> {
    Means {
        policy: &context.policy,
        storages: sessions.storages(context),
        filters,
    }
}

fn warn_unstored(error: &StorageError, logger: &ObjectLogger) {
    let error = describe(error);
    logger.warning(format_args!("The diff-base is not stored: {error}"));
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
