//! Collection of the facts for one cycle: cause, progress, finalizer and runners.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use kopf_core::body::Body;
use kopf_core::cause::{Cause, Change, Compared, EventType, Reason, detect};
use kopf_core::diff::Diff;
use kopf_core::finalizer;
use kopf_core::handler::{HandlerId, HandlerKind};
use kopf_core::object::handling::{Essences, RunnerExits, Storages, fingerprint, validate};
use kopf_core::object::{AttemptedEssences, Facts, Finalizer, Fingerprint, Input, PendingPatch};
use kopf_core::progress::state::State;
use serde_json::Value;

use super::changing::handling;
use super::driver::{Driver, Version};
use super::persisting::Sessions;
use super::retriggering::Requested;
use super::runners::Tended;
use super::{ObjectPermit, ObjectState, ResourceContext};
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
    pub(super) sessions: Sessions,
    /// The request to call handlers again.
    pub(super) requested: Option<Requested>,
}

impl Driver {
    /// Collects the facts about the newest version and stores them for the rest of the cycle.
    pub(super) async fn plan(&mut self, permit: &mut ObjectPermit) -> Input {
        let Some(version) = self.newest.clone() else {
            return Input::NoVersion;
        };
        let logger = self.logger(&version.body).clone();
        let gathering = AssertUnwindSafe(self.gather(&version, &logger)).catch_unwind();
        let gathered = permit.during(gathering).await;
        permit.reacquire().await;
        let failure = match gathered {
            Ok(Ok(facts)) => return Input::Planned(facts),
            Ok(Err(error)) => error,
            Err(panic) => Error::Panic(describe_panic(&*panic)),
        };
        self.failure = Some(failure);
        Input::Failed
    }

    async fn gather(&mut self, version: &Version, logger: &ObjectLogger) -> Result<Facts, Error> {
        let context = Arc::clone(&self.context);
        let tended = *self.tended.take().unwrap_or_default();
        if self.is_released(version) {
            self.cycle = None;
            return Ok(self.facts(version, Finalizer::Released, tended));
        }
        let detected = Cycle::detect(&context, &self.state, version, logger).await?;
        let cycle = self.visible(detected, logger)?;
        let finalizer = self.finalizer(version, cycle.as_ref(), &tended, logger)?;
        self.cycle = match cycle {
            Some(mut cycle) => {
                self.refuse_request(&context, &cycle, logger);
                // The finalizer does not depend on progress records, and deleted objects are not
                // handled.
                let is_optional = finalizer.change(version.body.is_deleting()).is_some()
                    || version.event == EventType::Deleted;
                match cycle.load(&context, &self.state, logger).await {
                    Err(error) if !is_optional => return Err(error),
                    _ => Some(Box::new(cycle)),
                }
            }
            None => None,
        };
        Ok(self.facts(version, finalizer, tended))
    }

    /// Returns `true` if the deletion is handled, and only the removal of the finalizer is left.
    fn is_released(&self, version: &Version) -> bool {
        let finalizer = &self.context.shared.context.settings.persistence.finalizer;
        let release = self.state.release.as_ref();
        release.is_some_and(|release| release.is_left(version.event, &version.body, finalizer))
    }

    /// Returns the cycle if any handlers may match the object. Otherwise the object is not changed
    /// (stealth mode).
    fn visible(
        &mut self,
        detected: Option<Cycle>,
        logger: &ObjectLogger,
    ) -> Result<Option<Cycle>, Error> {
        let Some(cycle) = detected else {
            return Ok(None);
        };
        let filtering = self.filtering(logger);
        let handlers = &self.context.handlers;
        let is_visible = handlers.prematches_any(&cycle.cause, &filtering)?;
        Ok(is_visible.then_some(cycle))
    }

    fn finalizer(
        &mut self,
        version: &Version,
        cycle: Option<&Cycle>,
        tended: &Tended,
        logger: &ObjectLogger,
    ) -> Result<Finalizer, Error> {
        let filtering = self.filtering(logger);
        let handlers = &self.context.handlers;
        let is_required = match cycle {
            _ if version.event == EventType::Deleted => false,
            _ if tended.required => true,
            Some(cycle) => handlers.requires_finalizer(&cycle.cause, &filtering)?,
            None => false,
        };
        let persistence = &self.context.shared.context.settings.persistence;
        let is_present = finalizer::is_blocked(&version.body, &persistence.finalizer);
        Ok(Finalizer::new(is_required, is_present))
    }

    fn filtering(&mut self, logger: &ObjectLogger) -> FilterContext {
        let operator = &self.context.shared.context;
        let memo = self.state.memo(&operator.memo);
        FilterContext::new(Arc::clone(operator), memo, logger)
    }

    fn facts(&mut self, version: &Version, finalizer: Finalizer, tended: Tended) -> Facts {
        let uncertain = tended.failure.is_some();
        if let Some(error) = tended.failure {
            self.failure = Some(error);
        }
        self.runner_exits = if tended.delays.is_empty() {
            RunnerExits::Exited
        } else {
            RunnerExits::Awaited
        };
        let cycle = self.cycle.as_deref();
        Facts {
            event: version.event,
            deleting: version.body.is_deleting(),
            finalizer,
            reason: cycle.and_then(Cycle::reason),
            exiting: tended.delays.into_iter().min(),
            outdated: cycle.is_some_and(|cycle| cycle.is_outdated(&self.context)),
            patch: self.pending_patch(),
            fingerprint: cycle.map(Cycle::fingerprint).unwrap_or_default(),
            uncertain,
        }
    }

    /// Returns `true` if there are attempted essences of an earlier cycle.
    pub(super) fn tracks_attempts(&self, body: &Body) -> bool {
        tracks_attempts(&self.context, &self.state, body)
    }

    pub(super) fn pending_patch(&self) -> PendingPatch {
        if !self.state.carried.is_empty() {
            PendingPatch::Carried
        } else if self.patch.is_empty() && self.unsaved.is_empty() {
            PendingPatch::Empty
        } else if !self.origins.woken.is_empty() && self.has_child_patch() {
            PendingPatch::First
        } else {
            PendingPatch::Some
        }
    }

    /// Returns `true` if child handlers have contributed to the patch.
    fn has_child_patch(&self) -> bool {
        let mut contributed = self.origins.contributed.iter();
        contributed.any(|contribution| contribution.kind == HandlerKind::Child)
    }
}

impl Cycle {
    /// Detects the cause; `None` without change handlers. The progress is not loaded.
    async fn detect(
        context: &ResourceContext,
        state: &ObjectState,
        version: &Version,
        logger: &ObjectLogger,
    ) -> Result<Option<Self>, Error> {
        if context.handlers.changing.is_empty() {
            return Ok(None);
        }
        let sessions = Sessions::open(context, version, logger).await?;
        let mut cause = changing_cause(context, &sessions, state, version, logger)?;
        let mut requested = Requested::detect(context, &cause.body);
        if let Some(requested) = &mut requested {
            requested.apply(&mut cause);
        }
        Ok(Some(Self {
            cause,
            progress: State::default(),
            attempted: AttemptedEssences::default(),
            sessions,
            requested,
        }))
    }

    /// Loads the progress of the handlers of the cause, if needed.
    async fn load(
        &mut self,
        context: &ResourceContext,
        state: &ObjectState,
        logger: &ObjectLogger,
    ) -> Result<(), Error> {
        let body = &self.cause.body;
        let is_tracked = tracks_attempts(context, state, body);
        if !is_tracked && !self.reason().is_some_and(Reason::is_handled) {
            return Ok(());
        }
        let mut attempted = match (&state.attempted, context.storages().attempted.place()) {
            (Some(kept), _) => (**kept).clone(),
            (None, Some(place)) => AttemptedEssences::fetch(place, body),
            (None, None) => AttemptedEssences::default(),
        };
        let owned = || context.handlers.owned_ids();
        let ids = attempted.ids().map(HandlerId::from);
        let ids = owned().cloned().chain(ids);
        self.sessions.load_progress(context, ids, body).await?;
        let storages = self.sessions.storages(context);
        let progress = State::load(storages.progress, body, owned())?;
        for error in progress.unreadable() {
            warn_unreadable(error, logger);
        }
        validate(&mut attempted, storages, body, &progress)?;
        self.progress = progress;
        self.attempted = attempted;
        Ok(())
    }

    fn reason(&self) -> Option<Reason> {
        self.cause.change.as_ref().map(|change| change.reason)
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

    fn fingerprint(&self) -> Fingerprint {
        match (&self.cause.change, self.essences()) {
            (Some(change), Some(essences)) if change.reason.is_handled() => {
                let requested = self.requested.as_ref();
                let requested = requested.map_or(0, Requested::fingerprint);
                let Fingerprint { target, progress } =
                    fingerprint(change.reason, essences, &self.progress);
                let progress = progress ^ requested;
                Fingerprint { target, progress }
            }
            _ => Fingerprint::default(),
        }
    }
}

/// Returns `true` if there are attempted essences of an earlier cycle.
fn tracks_attempts(context: &ResourceContext, state: &ObjectState, body: &Body) -> bool {
    let place = context.storages().attempted.place();
    state.attempted.is_some()
        || place.is_some_and(|place| AttemptedEssences::is_stored(place, body))
}

/// Detects the changes since the diff-base was stored.
fn changing_cause(
    context: &ResourceContext,
    sessions: &Sessions,
    state: &ObjectState,
    version: &Version,
    logger: &ObjectLogger,
) -> Result<Cause, Error> {
    let body = &version.body;
    let storages = sessions.storages(context);
    let new = Arc::new(context.essence(body)?);
    // Most objects are unchanged and need neither parsing nor comparison.
    let old = if storages.diffbase.is_stored(body, &new) {
        Some(Arc::clone(&new))
    } else {
        fetch_base(storages, body, logger)?.map(Arc::new)
    };
    let diff = Diff::between(old.clone(), Some(Arc::clone(&new)));
    let compared = match &old {
        // The diff of a creation is computed only if a handler reads it.
        None => Compared::Unhandled,
        Some(_) if diff.is_empty() => Compared::Unchanged,
        Some(_) => Compared::Changed,
    };
    let finalizer = &context.shared.context.settings.persistence.finalizer;
    let detected = detect(version.event, body, finalizer, compared, state.sighting());
    let mut cause = Cause::new(Arc::clone(&context.resource), body.clone());
    let change = Change::new(detected.reason, detected.initial, old, Some(new), diff);
    cause.change = Some(change);
    Ok(cause)
}

/// Fetches the diff-base. An unreadable diff-base counts as absent if the object is being deleted,
/// because it would block the deletion. Otherwise it is an error, because the object would look
/// new.
fn fetch_base(
    storages: Storages<'_>,
    body: &Body,
    logger: &ObjectLogger,
) -> Result<Option<Value>, Error> {
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
