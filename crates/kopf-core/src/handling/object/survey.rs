//! The first look at a version: its cause, its visibility, and its finalizer.

use std::sync::Arc;
use std::time::Duration;

use super::cycle::{Cycle, Error, Means, Note};
use super::handling::RunnerExits;
use super::memory::{Memory, Object};
use super::moment::Moment;
use super::plan::{Facts, Finalizer};
use super::policy::Policy;
use super::reconciling::{self, Now, Reconciling};
use super::retriggering::Request;
use super::version::Version;
use crate::cause::{Cause, EventType};
use crate::finalizer;

/// The daemons and timers of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runners {
    /// Some must run, so the object needs the finalizer.
    pub required: bool,
    /// When to check those that are being stopped.
    pub exiting: Option<Duration>,
    /// It is unknown whether some must run, because their filters failed.
    pub uncertain: bool,
}

impl Runners {
    /// Returns the exits that the deletion of the object waits for.
    pub fn exits(&self) -> RunnerExits {
        match self.exiting {
            Some(_) => RunnerExits::Awaited,
            None => RunnerExits::Exited,
        }
    }
}

/// The first look at a version.
#[derive(Debug)]
pub struct Survey {
    /// The cause; `None` if no change handler may match the object.
    pub cycle: Option<Cycle>,
    /// The reconcile handlers to call now or later, or to retry.
    pub reconciling: Option<Reconciling>,
    finalizer: Finalizer,
    is_progress_optional: bool,
}

impl Survey {
    /// Looks at a version. Failures of filters and storages end the cycle.
    pub fn new<F>(
        means: Means<'_, F>,
        object: &mut Object,
        version: &Version,
        runners: Runners,
        now: Moment,
        notes: &mut Vec<Note>,
    ) -> Result<Self, Error> {
        let (handlers, filters) = (&means.policy.handlers, means.filters);
        let name = &means.policy.persistence().finalizer;
        let is_gone = version.event == EventType::Deleted;
        let is_deleting = version.body.is_deleting();
        let is_held = !is_gone && Self::is_held_by_reconciliation(means, version)?;
        let mut cycle = None;
        if !handlers.changing.is_empty() || is_held && is_deleting {
            let mut detected = Cycle::detect(means, version, &object.memory, notes)?;
            detected.is_based = handlers.prematches_any(&detected.cause, filters)?;
            // Otherwise the object is not changed (stealth mode).
            let is_visible = detected.is_based || is_held && is_deleting;
            cycle = is_visible.then_some(detected);
        }
        let is_required = match &cycle {
            _ if is_gone => false,
            _ if is_held || runners.required => true,
            Some(cycle) => handlers.requires_finalizer(&cycle.cause, filters)?,
            None => false,
        };
        let is_left = is_gone || is_deleting;
        let request = if is_left {
            None
        } else {
            Request::fetch(means.policy.naming(), &version.body)
        };
        let essence = cycle.as_ref().map(Cycle::essence);
        let reconciling = if is_left {
            object.memory.reconcilers = None;
            None
        } else {
            Reconciling::observe(means, object, version, (essence, request.as_ref()), now)?
        };
        let is_present = finalizer::is_blocked(&version.body, name);
        let finalizer = Finalizer::new(is_required, is_present);
        if let Some(request) = request {
            Self::settle_request(means, request, cycle.as_ref(), object, version, notes);
        }
        Ok(Self {
            cycle,
            reconciling,
            finalizer,
            // The finalizer does not depend on progress records, and deleted objects are not
            // handled.
            is_progress_optional: finalizer.change(is_deleting).is_some() || is_gone,
        })
    }

    /// Removes a request that selects no handlers of changes: there is nothing more to do for it.
    fn settle_request<F>(
        means: Means<'_, F>,
        request: Request,
        cycle: Option<&Cycle>,
        object: &mut Object,
        version: &Version,
        notes: &mut Vec<Note>,
    ) {
        let requested = cycle.and_then(|cycle| cycle.requested.as_ref());
        let reconcilers = object.memory.reconcilers.as_ref();
        let is_reconciled = reconcilers.is_some_and(|all| all.is_requested(&request));
        let is_visible = cycle.is_some() || reconcilers.is_some_and(|all| !all.is_empty());
        if !is_visible || requested.is_some_and(|requested| !requested.is_empty()) {
            return;
        }
        if !is_reconciled {
            notes.push(Note::UnknownRequest(request.handlers));
        }
        Request::remove(means.policy.naming(), &version.body, &mut object.patch);
    }

    /// Returns `true` if reconcile handlers must be called before the object is deleted.
    fn is_held_by_reconciliation<F>(means: Means<'_, F>, version: &Version) -> Result<bool, Error> {
        let handlers = &means.policy.handlers;
        if handlers.reconciling.is_empty() {
            return Ok(false);
        }
        let cause = Cause::new(Arc::clone(&means.policy.resource), version.body.clone());
        Ok(handlers.reconciles_deletion(&cause, means.filters)?)
    }

    /// Returns the survey of an object whose deletion is handled, so that only the removal of the
    /// finalizer is left; `None` for other objects.
    pub fn of_released<F>(policy: &Policy<F>, memory: &Memory, version: &Version) -> Option<Self> {
        let finalizer = &policy.persistence().finalizer;
        let release = memory.release.as_ref();
        let release = release.filter(|one| one.is_left(version.event, &version.body, finalizer));
        release.map(|_| Self {
            cycle: None,
            reconciling: None,
            finalizer: Finalizer::Released,
            is_progress_optional: true,
        })
    }

    /// Returns `true` if the cycle can go on without the progress of handlers.
    pub fn is_progress_optional(&self) -> bool {
        self.is_progress_optional
    }

    /// Returns the facts for the plan of the cycle.
    pub fn facts(&self, object: &Object, version: &Version, runners: Runners, now: Now) -> Facts {
        let cycle = self.cycle.as_ref();
        let reconciling = self.reconciling.as_ref();
        Facts {
            event: version.event,
            deleting: version.body.is_deleting(),
            finalizer: self.finalizer,
            reason: cycle.map(Cycle::reason),
            exiting: runners.exiting,
            reconciling: reconciling::delay(object, reconciling, now),
            outdated: cycle.is_some_and(Cycle::is_outdated),
            patch: object.pending_patch(),
            fingerprint: cycle.map(Cycle::fingerprint).unwrap_or_default(),
            uncertain: runners.uncertain,
        }
    }
}
