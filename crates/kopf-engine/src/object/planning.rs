//! Gathering of the facts for one cycle: cause, progress, finalizer, runners.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::{Cause, Change, EventType, Reason, detect};
use kopf_core::diff::Diff;
use kopf_core::finalizer;
use kopf_core::object::handling::{Essences, Others, fingerprint, load_attempted, validate};
use kopf_core::object::{AttemptedEssences, Facts, Finalizer, Input, PendingPatch};
use kopf_core::progress::state::State;
use serde_json::Value;

use super::changing::handling;
use super::driver::{Driver, Version};
use super::{ObjectState, ResourceContext};
use crate::error::Error;
use crate::execution::{describe_panic, warn_unreadable};
use crate::invocation::FilterContext;
use crate::logger::ObjectLogger;

/// A cause with the progress of its handlers, as loaded at the beginning of a cycle.
#[derive(Debug)]
pub(super) struct Cycle {
    pub(super) cause: Cause,
    pub(super) progress: State,
    pub(super) attempted: AttemptedEssences,
}

impl Driver {
    /// Gathers the facts about the newest version. They are kept for the rest of the cycle.
    pub(super) fn plan(&mut self) -> Input {
        let Some(Version { event, body }) = self.newest.clone() else {
            return Input::NoVersion;
        };
        let logger = self.logger(&body).clone();
        let gathering = AssertUnwindSafe(|| self.gather(event, &body, &logger));
        let failure = match catch_unwind(gathering) {
            Ok(Ok(facts)) => return Input::Planned(facts),
            Ok(Err(error)) => error,
            Err(panic) => Error::Panic(describe_panic(&*panic)),
        };
        self.failure = Some(failure);
        Input::Failed
    }

    fn gather(
        &mut self,
        event: EventType,
        body: &Body,
        logger: &ObjectLogger,
    ) -> Result<Facts, Error> {
        let context = Arc::clone(&self.context);
        let operator = &context.shared.context;
        let memo = self.state.memo(&operator.memo);
        let filtering = FilterContext::new(Arc::clone(operator), memo, logger);
        let tended = self.tended.take().unwrap_or_default();
        let mut cause = changing_cause(&context, &self.state, event, body, logger)?;
        // In stealth mode, the object is left alone.
        if let Some(visible) = &cause
            && !context.handlers.prematches_any(visible, &filtering)?
        {
            cause = None;
        }
        let is_required = match &cause {
            _ if event == EventType::Deleted => false,
            _ if tended.required => true,
            Some(cause) => context.handlers.requires_finalizer(cause, &filtering)?,
            None => false,
        };
        let is_present = finalizer::is_blocked(body, &operator.settings.persistence.finalizer);
        let finalizer = Finalizer::new(is_required, is_present);
        self.cycle = match cause {
            Some(cause) => match self.load(cause.clone(), logger) {
                Ok(cycle) => Some(Box::new(cycle)),
                // The finalizer does not depend on progress records.
                Err(_) if finalizer.change(body.is_deleting()).is_some() => {
                    Some(Box::new(Cycle::without_progress(cause)))
                }
                // Nothing is handled any longer.
                Err(_) if event == EventType::Deleted => {
                    Some(Box::new(Cycle::without_progress(cause)))
                }
                Err(error) => return Err(error),
            },
            None => None,
        };
        let change = self
            .cycle
            .as_ref()
            .and_then(|cycle| cycle.cause.change.as_ref());
        let uncertain = tended.failure.is_some();
        if let Some(error) = tended.failure {
            self.failure = Some(error);
        }
        self.others = if tended.delays.is_empty() {
            Others::Exited
        } else {
            Others::Awaited
        };
        Ok(Facts {
            event,
            deleting: body.is_deleting(),
            finalizer,
            reason: change.map(|change| change.reason),
            exiting: tended.delays.into_iter().min(),
            outdated: self
                .cycle
                .as_ref()
                .is_some_and(|cycle| cycle.is_outdated(&context)),
            patch: self.pending_patch(),
            fingerprint: self.cycle.as_ref().map_or(0, |cycle| cycle.fingerprint()),
            uncertain,
        })
    }

    /// Loads the progress of the handlers of a cause.
    fn load(&mut self, cause: Cause, logger: &ObjectLogger) -> Result<Cycle, Error> {
        let context = Arc::clone(&self.context);
        let storages = context.storages();
        let reason = cause.change.as_ref().map(|change| change.reason);
        let body = &cause.body;
        let is_tracked = self.tracks_attempts(body);
        if !is_tracked && !reason.is_some_and(Reason::is_handled) {
            return Ok(Cycle::without_progress(cause));
        }
        let owned = context.handlers.owned_ids();
        let progress = State::load(storages.progress, body, owned)?;
        for error in progress.unreadable() {
            warn_unreadable(error, logger);
        }
        let attempted = match &self.state.attempted {
            Some(kept) => {
                let mut kept = (**kept).clone();
                validate(&mut kept, storages, body, &progress)?;
                kept
            }
            None => load_attempted(storages, body, &progress)?,
        };
        Ok(Cycle {
            cause,
            progress,
            attempted,
        })
    }

    /// Returns `true` if there are attempted essences of an earlier cycle.
    pub(super) fn tracks_attempts(&self, body: &Body) -> bool {
        let naming = self.context.storages().attempted;
        self.state.attempted.is_some()
            || naming.is_some_and(|naming| AttemptedEssences::is_stored(naming, body))
    }

    pub(super) fn pending_patch(&self) -> PendingPatch {
        if !self.state.carried.is_empty() {
            PendingPatch::Carried
        } else if self.patch.is_empty() {
            PendingPatch::Empty
        } else {
            PendingPatch::Some
        }
    }
}

impl Cycle {
    fn without_progress(cause: Cause) -> Self {
        Self {
            cause,
            progress: State::default(),
            attempted: AttemptedEssences::default(),
        }
    }

    /// Returns the diff-base and the current essence.
    pub(super) fn essences(&self) -> Option<Essences<'_>> {
        let change = self.cause.change.as_ref()?;
        Some(Essences {
            old: change.old.as_deref(),
            new: change.new.as_ref()?,
        })
    }

    /// Returns `true` if nothing has changed, but some handlers were called with another essence.
    pub(super) fn is_outdated(&self, context: &ResourceContext) -> bool {
        handling(context, self).is_some_and(|handling| handling.is_outdated(&self.attempted))
    }

    fn fingerprint(&self) -> u64 {
        match (&self.cause.change, self.essences()) {
            (Some(change), Some(essences)) if change.reason.is_handled() => {
                fingerprint(change.reason, essences, &self.progress)
            }
            _ => 0,
        }
    }
}

/// Detects what has changed; `None` if there are no change handlers.
fn changing_cause(
    context: &ResourceContext,
    state: &ObjectState,
    event: EventType,
    body: &Body,
    logger: &ObjectLogger,
) -> Result<Option<Cause>, Error> {
    if context.handlers.changing.is_empty() {
        return Ok(None);
    }
    let persistence = &context.shared.context.settings.persistence;
    let new = Arc::new(context.essence(body)?);
    // Most objects are as they were left: then there is nothing to parse and to compare.
    let old = if persistence.diffbase_storage.is_stored(body, &new) {
        Some(Arc::clone(&new))
    } else {
        fetch_base(context, body, logger)?.map(Arc::new)
    };
    let diff = Diff::between(old.clone(), Some(Arc::clone(&new)));
    let detected = detect(
        event,
        body,
        &persistence.finalizer,
        old.is_some(),
        // Creations are recognised without their diff, which is computed only if it is read.
        old.is_some() && diff.is_empty(),
        state.initial(),
    );
    Ok(Some(Cause {
        resource: Arc::clone(&context.resource),
        body: body.clone(),
        event: None,
        change: Some(Change {
            reason: detected.reason,
            initial: detected.initial,
            old,
            new: Some(new),
            diff,
        }),
    }))
}

/// Fetches the diff-base. An unreadable one counts as absent on an object that is being deleted,
/// which could not be deleted otherwise. On other objects it is an error: without it they would look
/// new.
fn fetch_base(
    context: &ResourceContext,
    body: &Body,
    logger: &ObjectLogger,
) -> Result<Option<Value>, Error> {
    let storages = context.storages();
    let mut old = match storages.diffbase.fetch(body) {
        Err(error) if error.is_unreadable() && body.is_deleting() => {
            warn_unreadable(&error, logger);
            None
        }
        old => old?,
    };
    if let Some(old) = &mut old {
        storages.progress.clear(old)?;
    }
    Ok(old)
}
