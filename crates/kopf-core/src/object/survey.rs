//! The first look at a version: its cause, its visibility, and its finalizer.

use std::time::Duration;

use super::cycle::{Cycle, Error, Means, Note};
use super::handling::RunnerExits;
use super::memory::{Memory, Object};
use super::plan::{Facts, Finalizer};
use super::policy::Policy;
use super::retriggering::Request;
use super::version::Version;
use crate::cause::EventType;
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
        notes: &mut Vec<Note>,
    ) -> Result<Self, Error> {
        let (handlers, filters) = (&means.policy.handlers, means.filters);
        let name = &means.policy.persistence().finalizer;
        let mut cycle = None;
        if !handlers.changing.is_empty() {
            let detected = Cycle::detect(means, version, &object.memory, notes)?;
            // Otherwise the object is not changed (stealth mode).
            let is_visible = handlers.prematches_any(&detected.cause, filters)?;
            cycle = is_visible.then_some(detected);
        }
        let is_required = match &cycle {
            _ if version.event == EventType::Deleted => false,
            _ if runners.required => true,
            Some(cycle) => handlers.requires_finalizer(&cycle.cause, filters)?,
            None => false,
        };
        let is_present = finalizer::is_blocked(&version.body, name);
        let finalizer = Finalizer::new(is_required, is_present);
        if let Some(requested) = cycle.as_ref().and_then(|cycle| cycle.requested.as_ref())
            && let Some(unknown) = requested.unknown()
        {
            notes.push(Note::UnknownRequest(unknown.to_vec()));
            Request::remove(means.policy.naming(), &version.body, &mut object.patch);
        }
        Ok(Self {
            cycle,
            finalizer,
            // The finalizer does not depend on progress records, and deleted objects are not
            // handled.
            is_progress_optional: finalizer.change(version.body.is_deleting()).is_some()
                || version.event == EventType::Deleted,
        })
    }

    /// Returns the survey of an object whose deletion is handled, so that only the removal of the
    /// finalizer is left; `None` for other objects.
    pub fn of_released<F>(policy: &Policy<F>, memory: &Memory, version: &Version) -> Option<Self> {
        let finalizer = &policy.persistence().finalizer;
        let release = memory.release.as_ref();
        let release = release.filter(|one| one.is_left(version.event, &version.body, finalizer));
        release.map(|_| Self {
            cycle: None,
            finalizer: Finalizer::Released,
            is_progress_optional: true,
        })
    }

    /// Returns `true` if the cycle can go on without the progress of handlers.
    pub fn is_progress_optional(&self) -> bool {
        self.is_progress_optional
    }

    /// Returns the facts for the plan of the cycle.
    pub fn facts(&self, object: &Object, version: &Version, runners: Runners) -> Facts {
        let cycle = self.cycle.as_ref();
        Facts {
            event: version.event,
            deleting: version.body.is_deleting(),
            finalizer: self.finalizer,
            reason: cycle.map(Cycle::reason),
            exiting: runners.exiting,
            outdated: cycle.is_some_and(Cycle::is_outdated),
            patch: object.pending_patch(),
            fingerprint: cycle.map(Cycle::fingerprint).unwrap_or_default(),
            uncertain: runners.uncertain,
        }
    }
}
