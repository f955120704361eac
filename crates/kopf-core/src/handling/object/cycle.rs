//! One cycle of one object: what happens when it has changed.
//!
//! 1. [`Survey`](super::Survey): the version is compared with the diff-base, which gives the cause; handlers that
//!    may match make the object visible, and some of them require the finalizer.
//! 2. [`Cycle::recall`], [`Cycle::load`]: the progress of the handlers is loaded.
//! 3. [`Survey::facts`](super::Survey::facts): the facts for the [machine](super::Machine), which
//!    [plans](super::plan) to write first, to call handlers, to wait, or to do nothing.
//! 4. [`Cycle::begin`]: the handlers are selected, and what is left of other causes is superseded.
//! 5. The driver calls the handlers.
//! 6. [`Cycle::conclude`]: their progress, or the new diff-base, is added to the patch.
//! 7. [`Object::plan_write`](super::Object::plan_write): the content of the write;
//!    [`WritePlan::judge`](super::WritePlan::judge): its effect.
//!
//! Everything here is pure. What needs users' code (storages, filters) is called here, and never
//! waits; a driver loads asynchronous storages before.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::attempted::{AttemptedEssences, settle_prediction};
use super::handling::{
    Attempted, Attempts, Concluded, Conclusion, Essences, Handling, RunnerExits, Storages,
    fingerprint, validate,
};
use super::memory::{Memory, Object};
use super::policy::Policy;
use super::progressing::Fingerprint;
use super::releasing::Release;
use super::retriggering::Requested;
use super::version::Version;
use crate::body::Body;
use crate::cause::{Cause, Change, Compared, Reason, detect};
use crate::diff::Diff;
use crate::handler::{Handler, HandlerId};
use crate::patch::Patch;
use crate::progress::state::{Counts, Extra, State};
use crate::storage::StorageError;

/// A failure of a cycle.
#[derive(Debug, thiserror::Error)]
#[doc(hidden)] // The engine has an error of its own.
pub enum Error {
    /// Of a filter.
    #[error(transparent)]
    Filter(#[from] crate::matching::FilterError),
    /// Of a storage.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A log record of a cycle.
#[derive(Debug)]
pub enum Note {
    /// The diff-base of an object that is being deleted is unreadable, and counts as absent.
    Unreadable(StorageError),
    /// A request for these handlers selects none.
    UnknownRequest(Vec<String>),
    /// The remains of another cause are superseded by this one.
    Superseded(Extra, Reason),
    /// The handlers of the cause are selected.
    Selected,
    /// The diff-base of an object that is being deleted is not stored.
    Unstored(StorageError),
    /// Attempted essences are too large for the object, and are kept in memory from now on.
    Oversized,
    /// All handlers of the cause have finished.
    Processed(Reason, Counts),
}

/// The means of the decisions of a cycle.
#[derive(Debug)]
pub struct Means<'a, F> {
    /// The handlers and settings.
    pub policy: &'a Policy<F>,
    /// The storages, with loaded content if they are asynchronous.
    pub storages: Storages<'a>,
    /// The context of filters.
    pub filters: &'a dyn Any,
}

impl<F> Clone for Means<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Means<'_, F> {}

/// The handlers to call, or the end of a cycle that calls none.
#[derive(Debug)]
pub enum Begun<F> {
    /// These handlers are called, as far as they are due.
    Call {
        /// The handlers.
        handlers: Vec<Arc<Handler<F>>>,
        /// Those of them that a child has woken up.
        woken: Vec<HandlerId>,
    },
    /// No handlers are called.
    Ended(Ended),
}

/// The end of a cycle.
#[derive(Debug, Default)]
pub struct Ended {
    /// The delay until the next handler is due; `None` if all have finished.
    pub due: Option<Duration>,
    /// The failure to store the result: the cycle must be repeated.
    pub failure: Option<StorageError>,
    /// The essence that is stored as handled, if there is no pending work.
    pub settled: Option<Arc<Value>>,
    /// The patch contains the records of the attempts.
    pub is_recorded: bool,
}

impl Ended {
    fn to_be_continued() -> Self {
        Self {
            due: Some(Duration::ZERO),
            ..Self::default()
        }
    }
}

/// A cause with the progress of its handlers.
#[derive(Clone, Debug)]
pub struct Cycle {
    /// The object with its changes.
    pub cause: Cause,
    /// The progress of the handlers.
    pub progress: State,
    reason: Reason,
    old: Option<Arc<Value>>,
    new: Arc<Value>,
    attempted: AttemptedEssences,
    pub(super) requested: Option<Requested>,
    /// Handlers other than reconcile handlers match the object, so that its diff-base is stored.
    pub(super) is_based: bool,
}

impl Cycle {
    /// Detects the changes since the diff-base was stored. The progress is not loaded.
    pub(super) fn detect<F>(
        means: Means<'_, F>,
        version: &Version,
        memory: &Memory,
        notes: &mut Vec<Note>,
    ) -> Result<Self, StorageError> {
        let Means {
            policy, storages, ..
        } = means;
        let body = &version.body;
        let new = Arc::new(policy.essence(body)?);
        // Most objects are unchanged and need neither parsing nor comparison.
        let old = if storages.diffbase.is_stored(body, &new) {
            Some(Arc::clone(&new))
        } else {
            fetch_base(storages, body, notes)?.map(Arc::new)
        };
        let diff = Diff::between(old.clone(), Some(Arc::clone(&new)));
        let compared = match &old {
            // The diff of a creation is computed only if a handler reads it.
            None => Compared::Unhandled,
            Some(_) if diff.is_empty() => Compared::Unchanged,
            Some(_) => Compared::Changed,
        };
        let finalizer = &policy.persistence().finalizer;
        let detected = detect(version.event, body, finalizer, compared, memory.sighting());
        let mut requested = Requested::detect(policy, body);
        let for_request = requested
            .as_mut()
            .and_then(|one| one.cause(detected.reason));
        let reason = for_request.unwrap_or(detected.reason);
        let mut cause = Cause::new(Arc::clone(&policy.resource), body.clone());
        let (before, after) = (old.clone(), Some(Arc::clone(&new)));
        cause.change = Some(Change::new(reason, detected.initial, before, after, diff));
        Ok(Self {
            cause,
            progress: State::default(),
            reason,
            old,
            new,
            attempted: AttemptedEssences::default(),
            requested,
            is_based: true,
        })
    }

    /// Returns the current essence.
    pub(super) fn essence(&self) -> &Value {
        &self.new
    }

    /// Returns the reason of the cause.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Recalls the attempted essences, and returns the handlers whose progress must be loaded;
    /// `None` if the progress is not needed.
    pub fn recall<F>(&mut self, policy: &Policy<F>, memory: &Memory) -> Option<Vec<HandlerId>> {
        let body = &self.cause.body;
        if !self.reason.is_handled() && !policy.tracks_attempts(memory, body) {
            return None;
        }
        self.attempted = match (&memory.attempted, policy.storages().attempted.place()) {
            (Some(kept), _) => (**kept).clone(),
            (None, Some(place)) => AttemptedEssences::fetch(place, body),
            (None, None) => AttemptedEssences::default(),
        };
        let ids = self.attempted.ids().map(HandlerId::from);
        let owned = policy.handlers.owned(self.reason).iter().cloned();
        Some(owned.chain(ids).collect())
    }

    /// Loads the progress of the handlers, and drops the attempts that it does not confirm.
    ///
    /// # Errors
    /// Of the storage.
    pub fn load<F>(
        &mut self,
        policy: &Policy<F>,
        storages: Storages<'_>,
    ) -> Result<(), StorageError> {
        let body = &self.cause.body;
        let owned = policy.handlers.owned(self.reason);
        let progress = State::load(storages.progress, body, owned.iter())?;
        let mut attempted = std::mem::take(&mut self.attempted);
        validate(&mut attempted, storages, body, &progress)?;
        (self.progress, self.attempted) = (progress, attempted);
        Ok(())
    }

    fn handling<'a, F>(&'a self, means: Means<'a, F>) -> Handling<'a> {
        Handling {
            storages: means.storages,
            body: &self.cause.body,
            reason: self.reason,
            essences: self.essences(),
            owned: means.policy.handlers.owned(self.reason),
            stores_base: self.is_based,
        }
    }

    fn essences(&self) -> Essences<'_> {
        Essences {
            old: self.old.as_deref(),
            new: &self.new,
        }
    }

    /// Returns `true` if nothing has changed, but some handlers were called with another essence,
    /// so that they are owed an update.
    pub(super) fn is_outdated(&self) -> bool {
        let is_unchanged = matches!(self.reason, Reason::Noop | Reason::Resume);
        is_unchanged && !self.attempted.outdated(&self.new).is_empty()
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        if !self.reason.is_handled() {
            return Fingerprint::default();
        }
        let requested = self.requested.as_ref().map_or(0, Requested::fingerprint);
        let Fingerprint { target, progress } =
            fingerprint(self.reason, self.essences(), &self.progress);
        Fingerprint {
            target,
            progress: progress ^ requested,
        }
    }

    /// Selects the handlers of the cause. If there are none, or if other writes go first, the cycle
    /// ends.
    pub fn begin<F>(
        &mut self,
        means: Means<'_, F>,
        object: &mut Object,
        now: Timestamp,
        notes: &mut Vec<Note>,
    ) -> Result<Begun<F>, Error> {
        let policy = means.policy;
        if self.is_outdated() {
            return Ok(Begun::Ended(self.rebase(means, object, notes)?));
        }
        if let Some(requested) = &self.requested
            && requested.accept(
                policy.naming(),
                &self.progress,
                means.storages.progress,
                &self.cause.body,
                &mut object.patch,
            )?
        {
            return Ok(Begun::Ended(Ended::to_be_continued()));
        }
        let mut handlers = policy.handlers.selected(&self.cause, means.filters)?;
        if let Some(requested) = &self.requested {
            handlers = requested.join(policy, handlers);
        }
        let ids = handlers.iter().map(|handler| &handler.id);
        let mut progress = std::mem::take(&mut self.progress);
        if self.reason == Reason::Delete {
            restart_reconciliation(policy, &mut progress);
        }
        let handling = self.handling(means);
        let superseded = handling.supersede(&mut progress, ids, now, &mut object.patch)?;
        self.progress = progress;
        let superseded = superseded.into_iter();
        notes.extend(superseded.map(|extra| Note::Superseded(extra, self.reason)));
        let woken = object.take_woken();
        self.progress.wake(&woken);
        notes.push(Note::Selected);
        if handlers.is_empty() {
            return Ok(Begun::Ended(self.skip(means, object, notes)?));
        }
        Ok(Begun::Call { handlers, woken })
    }

    /// Stores the essence as handled if no handlers match the change.
    fn skip<F>(
        &self,
        means: Means<'_, F>,
        object: &mut Object,
        notes: &mut Vec<Note>,
    ) -> Result<Ended, StorageError> {
        object.memory.fully_handled_once = true;
        let is_outdated = !self.attempted.outdated(&self.new).is_empty();
        if is_outdated && self.reason != Reason::Delete {
            return self.rebase(means, object, notes);
        }
        let handling = self.handling(means);
        let patch = &mut object.patch;
        if means.policy.tracks_attempts(&object.memory, handling.body) {
            // Records that were carried over to this update are obsolete.
            let concluded = handling.finish(&self.progress, patch)?;
            self.keep(means, concluded, object, notes);
        } else {
            let unstored = handling.store_base(&self.new, patch)?;
            handling.drop_untracked(patch);
            notes.extend(unstored.map(Note::Unstored));
        }
        Ok(Ended::default())
    }

    /// Stores a diff-base from which the missed changes result in an update.
    fn rebase<F>(
        &self,
        means: Means<'_, F>,
        object: &mut Object,
        notes: &mut Vec<Note>,
    ) -> Result<Ended, StorageError> {
        let handling = self.handling(means);
        let patch = &mut object.patch;
        let concluded = handling.follow_up(&self.progress, &self.attempted, patch)?;
        self.keep(means, concluded, object, notes);
        Ok(Ended::to_be_continued())
    }

    /// Keeps in memory what is not stored on the object: the outcome of a finished deletion, and
    /// essences that are too large.
    fn keep<F>(
        &self,
        means: Means<'_, F>,
        concluded: Concluded,
        object: &mut Object,
        notes: &mut Vec<Note>,
    ) {
        let memory = &mut object.memory;
        if let Some(erasure) = concluded.erasure {
            let owned = means.policy.handlers.owned(self.reason);
            let release = Release::new(&self.progress, owned, erasure);
            memory.release = Some(Box::new(release));
        }
        notes.extend(concluded.unstored_base.map(Note::Unstored));
        if concluded.oversized.is_some() && memory.attempted.is_none() {
            notes.push(Note::Oversized);
        }
        memory.attempted = concluded.oversized.map(Box::new);
    }

    /// Adds the result of the handlers to the patch: progress, diff-base, attempted essences. If it
    /// cannot be stored, the progress alone is.
    ///
    /// - `calls`: the calls of this cycle.
    /// - `exits`: daemons and timers that the deletion waits for.
    /// - `discard`: discards what was given to the storages so far.
    pub fn conclude<F>(
        &self,
        means: Means<'_, F>,
        object: &mut Object,
        calls: &Calls<'_>,
        discard: impl FnOnce(),
        notes: &mut Vec<Note>,
    ) -> Ended {
        let handling = self.handling(means);
        if let Some(requested) = &self.requested {
            let naming = means.policy.naming();
            requested.conclude(naming, &self.progress, handling.body, &mut object.patch);
        }
        let unconcluded = object.patch.clone();
        let attempts = Attempts {
            prior: &self.attempted,
            made: calls.made,
            after: &|| self.essence_after(means, &unconcluded),
        };
        let concluded = handling.conclude(&self.progress, attempts, calls.exits, &mut object.patch);
        let mut ended = Ended::default();
        let conclusion = match concluded {
            Ok(concluded) => {
                let conclusion = concluded.conclusion;
                self.keep(means, concluded, object, notes);
                conclusion
            }
            Err(error) => {
                discard();
                object.patch = unconcluded.clone();
                ended.failure = Some(self.fall_back(&handling, attempts, object, error));
                if self.progress.is_done() {
                    Conclusion::Finished
                } else {
                    Conclusion::Unfinished
                }
            }
        };
        self.evaluate(conclusion, calls, object, &mut ended, notes);
        ended
    }

    /// Stores the progress if the result of a cycle cannot be stored. Returns the failure.
    fn fall_back(
        &self,
        handling: &Handling<'_>,
        attempts: Attempts<'_>,
        object: &mut Object,
        error: StorageError,
    ) -> StorageError {
        // Without a diff-base, the records are the only evidence that handlers have finished.
        let (storage, patch) = (handling.storages.progress, &mut object.patch);
        let stored = self.progress.store(storage, handling.body, patch);
        if stored.is_ok() && !matches!(error, StorageError::TooLarge { .. }) {
            // Finished handlers must not miss the changes until the next attempt. An essence that
            // does not fit would not fit into the next diff-base either.
            let oversized = handling.note_attempts(attempts, patch);
            object.memory.attempted = oversized.map(Box::new);
        }
        stored.err().unwrap_or(error)
    }

    fn evaluate(
        &self,
        conclusion: Conclusion,
        calls: &Calls<'_>,
        object: &mut Object,
        ended: &mut Ended,
        notes: &mut Vec<Note>,
    ) {
        let is_stored = ended.failure.is_none();
        let is_purged = matches!(conclusion, Conclusion::Finished | Conclusion::UpdateFollows);
        ended.is_recorded = !(is_purged && is_stored);
        ended.due = match conclusion {
            Conclusion::Unfinished => self.progress.delays(calls.ended).into_iter().min(),
            Conclusion::Outdated | Conclusion::UpdateFollows => Some(Duration::ZERO),
            Conclusion::Kept | Conclusion::Finished => None,
        };
        if !is_purged {
            return;
        }
        // A repeated attempt to store the diff-base is not logged again.
        if calls.any || is_stored {
            notes.push(Note::Processed(self.reason, self.progress.counts()));
        }
        object.memory.fully_handled_once |= is_stored;
        if conclusion == Conclusion::Finished && is_stored {
            ended.settled = Some(Arc::clone(&self.new));
        }
    }

    /// Returns the essence with the patch of the cycle applied; the current essence if that fails.
    fn essence_after<F>(&self, means: Means<'_, F>, patch: &Patch) -> Arc<Value> {
        if patch.is_empty() {
            return Arc::clone(&self.new);
        }
        let after = patch.applied_to(&self.cause.body);
        let predicted = after.ok().and_then(|body| means.policy.essence(&body).ok());
        match predicted {
            Some(predicted) => Arc::new(settle_prediction(
                self.old.as_deref(),
                &self.new,
                &predicted,
            )),
            None => Arc::clone(&self.new),
        }
    }
}

/// The calls of handlers in a cycle.
#[derive(Debug)]
pub struct Calls<'a> {
    /// The attempts, with those of sub-handlers.
    pub made: &'a [Attempted],
    /// Some handlers were due.
    pub any: bool,
    /// Daemons and timers that the deletion of the object waits for.
    pub exits: RunnerExits,
    /// The time after the calls.
    pub ended: Timestamp,
}

/// Resets the records of reconcile handlers that were retried before the deletion: its attempts are
/// counted on their own.
fn restart_reconciliation<F>(policy: &Policy<F>, progress: &mut State) {
    let reconciling = &policy.handlers.reconciling;
    progress.reset(Some(Reason::Delete), |id, record| {
        let mut reconciling = reconciling.iter();
        record.purpose.is_none() && reconciling.any(|handler| handler.id == *id)
    });
}

/// Fetches the diff-base. An unreadable diff-base counts as absent if the object is being deleted,
/// because it would block the deletion. Otherwise it is an error, because the object would look
/// new.
fn fetch_base(
    storages: Storages<'_>,
    body: &Body,
    notes: &mut Vec<Note>,
) -> Result<Option<Value>, StorageError> {
    let mut old = match storages.diffbase.fetch(body) {
        Err(error) if error.is_unreadable() && body.is_deleting() => {
            notes.push(Note::Unreadable(error));
            None
        }
        old => old?,
    };
    if let Some(old) = &mut old {
        storages.progress.clear(old)?;
    }
    Ok(old)
}
