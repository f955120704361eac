//! Handling of one cause over several cycles: progress records, the diff-base, missed changes.
//!
//! A cycle loads the [progress](crate::progress) of its handlers, calls those that are due, and
//! [concludes](Handling::conclude): the records are stored while handlers are unfinished; when all
//! are finished, the diff-base is stored and the records are purged. The records of a deletion are
//! purged together with the finalizer: see [`Release`](super::Release). Handlers that were called
//! with an essence that is outdated by then are owed an update: see [`attempted`](super::attempted).

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::attempted::{AttemptedEssences, Place};
use super::progressing::Fingerprint;
use super::releasing::Erasure;
use crate::body::Body;
use crate::cause::Reason;
use crate::diffbase::DiffBaseStorage;
use crate::equality::equal;
use crate::handler::HandlerId;
use crate::patch::{Patch, PatchFn};
use crate::progress::state::{Extra, State};
use crate::progress::{ProgressRecord, ProgressStorage};
use crate::sizes::{ANNOTATIONS_LIMIT, annotations_size, patched_annotations};
use crate::storage::StorageError;

/// The storages of the state of handling.
#[derive(Clone, Copy, Debug)]
pub struct Storages<'a> {
    /// The progress of handlers.
    pub progress: &'a dyn ProgressStorage,
    /// The diff-base.
    pub diffbase: &'a dyn DiffBaseStorage,
    /// The place of attempted essences.
    pub attempted: Tracking<'a>,
}

/// The use of attempted essences.
#[derive(Clone, Copy, Debug)]
pub enum Tracking<'a> {
    /// Attempted essences are kept in this place.
    On(&'a Place),
    /// They are not kept, so that changes can be lost as in the original. Those that are left of
    /// another setting are removed.
    Off(&'a Place),
}

impl<'a> Tracking<'a> {
    /// Returns the place if attempted essences are kept.
    pub fn place(self) -> Option<&'a Place> {
        match self {
            Self::On(place) => Some(place),
            Self::Off(_) => None,
        }
    }
}

/// One attempt of a handler or a sub-handler in the current cycle.
#[derive(Clone, Debug)]
pub struct Attempted {
    /// The full id of the handler.
    pub id: HandlerId,
    /// Its progress record after the attempt.
    pub record: ProgressRecord,
}

/// The essences of one cause.
#[derive(Clone, Copy, Debug)]
pub struct Essences<'a> {
    /// The diff-base.
    pub old: Option<&'a Value>,
    /// The current essence.
    pub new: &'a Arc<Value>,
}

/// The handling of one cause in one cycle.
#[derive(Debug)]
pub struct Handling<'a> {
    /// The storages of its state.
    pub storages: Storages<'a>,
    /// The object.
    pub body: &'a Body,
    /// The reason to call handlers.
    pub reason: Reason,
    /// The essences of the cause.
    pub essences: Essences<'a>,
    /// The ids of all change handlers of the resource.
    pub owned: &'a [HandlerId],
    /// The diff-base is stored: not if only reconcile handlers match the object.
    pub stores_base: bool,
}

/// The result of a cycle of handling, with what could not be stored.
#[derive(Debug)]
pub struct Concluded {
    /// The state of handling.
    pub conclusion: Conclusion,
    /// The reason why the diff-base of an object that is being deleted is not stored. Worth a
    /// warning.
    pub unstored_base: Option<StorageError>,
    /// The attempted essences, if they are too large for an annotation: to be kept in memory.
    pub oversized: Option<AttemptedEssences>,
    /// The erasure of the records of a finished deletion, which goes with the finalizer.
    pub erasure: Option<Erasure>,
}

impl Concluded {
    /// The end of a handling that has nothing to store.
    pub const FINISHED: Self = Self {
        conclusion: Conclusion::Finished,
        unstored_base: None,
        oversized: None,
        erasure: None,
    };
}

/// The state of handling after a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// Some handlers are unfinished.
    Unfinished,
    /// All handlers are finished, and the records are kept until the daemons have exited.
    Kept,
    /// All handlers are finished, but some have missed changes: the next cycle makes an update
    /// follow.
    Outdated,
    /// All handlers are finished, and the essence is stored as handled.
    Finished,
    /// All handlers are finished, and an update follows with the changes that some have missed.
    UpdateFollows,
}

/// Drops the attempts that the progress records do not confirm.
pub fn validate(
    attempted: &mut AttemptedEssences,
    storages: Storages<'_>,
    body: &Body,
    state: &State,
) -> Result<(), StorageError> {
    let unknown: Vec<HandlerId> = attempted
        .ids()
        .filter(|id| state.record(id).is_none())
        .map(HandlerId::from)
        .collect();
    let subs = State::load(storages.progress, body, unknown.iter())?;
    attempted.validate(|id| state.record(id).or_else(|| subs.record(id)));
    Ok(())
}

/// Returns a digest of a cause and of the progress of its handlers.
pub fn fingerprint(reason: Reason, essences: Essences<'_>, state: &State) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    reason.hash(&mut hasher);
    essences.new.hash(&mut hasher);
    let target = hasher.finish();
    essences.old.hash(&mut hasher);
    for id in state.ids() {
        if let Some(record) = state.record(id) {
            let progress = (record.retries, record.success, record.failure);
            (id, &record.purpose, progress).hash(&mut hasher);
        }
    }
    Fingerprint {
        target,
        progress: hasher.finish(),
    }
}

impl Handling<'_> {
    /// Activates the selected handlers, and takes over what is left of other causes; the rest of it
    /// is purged. Returns what is superseded, for the log.
    pub fn supersede<'a>(
        &self,
        state: &mut State,
        selected: impl Iterator<Item = &'a HandlerId>,
        now: Timestamp,
        patch: &mut Patch,
    ) -> Result<Vec<Extra>, StorageError> {
        state.activate(selected, self.reason, now);
        let extras = state.extras(self.reason);
        if !extras.is_empty() {
            state.repurpose(self.reason);
            if state.has_extras(self.reason) {
                let owned = self.owned.iter();
                state.purge(self.storages.progress, self.body, patch, owned)?;
            }
        }
        Ok(extras)
    }

    /// Adds the result of a cycle to the patch: records, diff-base, attempted essences.
    pub fn conclude(
        &self,
        state: &State,
        attempts: Attempts<'_>,
        runner_exits: RunnerExits,
        patch: &mut Patch,
    ) -> Result<Concluded, StorageError> {
        let is_kept = runner_exits == RunnerExits::Awaited && self.reason == Reason::Delete;
        let is_done = state.is_done();
        let is_last = is_done && !is_kept;
        let is_skipped = self.reason == Reason::Delete || self.storages.progress.leaves_no_trace();
        if !is_last || !is_skipped {
            state.store(self.storages.progress, self.body, patch)?;
            self.shorten(patch)?;
        }
        if !is_last {
            return Ok(Concluded {
                conclusion: if is_done {
                    Conclusion::Kept
                } else {
                    Conclusion::Unfinished
                },
                oversized: self.note_attempts(attempts, patch),
                ..Concluded::FINISHED
            });
        }
        let mut earlier = attempts.prior.clone();
        earlier.retain(|id| !attempts.made.iter().any(|attempt| &*attempt.id == id));
        if self.reason == Reason::Delete || earlier.outdated(self.essences.new).is_empty() {
            self.finish(state, patch)
        } else if attempts.made.is_empty() {
            self.follow_up(state, &earlier, patch)
        } else {
            state.store(self.storages.progress, self.body, patch)?;
            self.shorten(patch)?;
            Ok(Concluded {
                conclusion: Conclusion::Outdated,
                oversized: self.note_attempts(attempts, patch),
                ..Concluded::FINISHED
            })
        }
    }

    /// Shortens the messages of records until the annotations of the object fit.
    fn shorten(&self, patch: &mut Patch) -> Result<(), StorageError> {
        let progress = self.storages.progress;
        progress.shorten(self.body, patch, ANNOTATIONS_LIMIT)
    }

    /// Adds the attempts of this cycle to the attempted essences. Returns these if they are too large
    /// for an annotation.
    pub fn note_attempts(
        &self,
        attempts: Attempts<'_>,
        patch: &mut Patch,
    ) -> Option<AttemptedEssences> {
        let mut attempted = attempts.prior.clone();
        attempts.note_into(&mut attempted);
        self.store_attempted(attempted, patch)
    }

    /// Removes attempted essences if they are not tracked any longer.
    pub fn drop_untracked(&self, patch: &mut Patch) {
        if let Tracking::Off(place) = self.storages.attempted
            && AttemptedEssences::is_stored(place, self.body)
        {
            AttemptedEssences::default().store(place, self.body, patch);
        }
    }

    /// Stores the current essence as handled, and purges the records. Those of a deletion are not
    /// purged before the finalizer is removed.
    pub fn finish(&self, state: &State, patch: &mut Patch) -> Result<Concluded, StorageError> {
        let unstored_base = self.store_base(self.essences.new, patch)?;
        if self.reason == Reason::Delete {
            return Ok(Concluded {
                unstored_base,
                erasure: Some(self.erasure(state, patch)?),
                ..Concluded::FINISHED
            });
        }
        let owned = self.owned.iter();
        state.purge(self.storages.progress, self.body, patch, owned)?;
        Ok(Concluded {
            unstored_base,
            oversized: self.store_attempted(AttemptedEssences::default(), patch),
            ..Concluded::FINISHED
        })
    }

    /// Returns the erasure of all records. Records that the patch would store are removed from it.
    fn erasure(&self, state: &State, patch: &mut Patch) -> Result<Erasure, StorageError> {
        let earlier = patch.merge.clone();
        let is_elsewhere = self.is_stored_elsewhere(state)?;
        if !is_elsewhere {
            let owned = self.owned.iter();
            state.purge(self.storages.progress, self.body, patch, owned)?;
        }
        self.store_attempted(AttemptedEssences::default(), patch);
        Ok(Erasure {
            on_object: patch.take_later(&earlier),
            is_elsewhere,
        })
    }

    /// Returns `true` if the records are kept outside of the object. Then they are stored now, which
    /// costs no request, and purged after the finalizer.
    fn is_stored_elsewhere(&self, state: &State) -> Result<bool, StorageError> {
        let storage = self.storages.progress;
        if storage.leaves_no_trace() {
            return Ok(false);
        }
        let mut added = Patch::default();
        let mut has_records = false;
        for (id, record) in state.active() {
            has_records = true;
            storage.store(id, record, self.body, &mut added)?;
        }
        let is_elsewhere = has_records && added.is_empty();
        if is_elsewhere {
            storage.flush()?;
        }
        Ok(is_elsewhere)
    }

    /// Stores a diff-base from which an update with the missed changes follows. The handlers that
    /// finished on the current essence keep their records, and are not called again.
    ///
    /// It is stored by a transformation that is only applied to this version of the object. If the
    /// object became equal to the composed diff-base in the meantime, the handlers that have not seen
    /// that state would not be called.
    pub fn follow_up(
        &self,
        state: &State,
        attempted: &AttemptedEssences,
        patch: &mut Patch,
    ) -> Result<Concluded, StorageError> {
        let mut stored = Patch::default();
        let outdated = attempted.outdated(self.essences.new);
        let composed = attempted.compose(self.essences.new);
        let unstored_base = self.store_base(&composed, &mut stored)?;
        let progress = self.storages.progress;
        let carried = state.carry_over(progress, self.body, &mut stored, &outdated)?;
        let mut attempted = attempted.clone();
        attempted.retain(|id| carried.kept.contains(id));
        // Interrupted handlers have handled the diff-base, not the essence of their last attempt.
        if let Some(old) = self.essences.old {
            let old = Arc::new(old.clone());
            for id in &carried.interrupted {
                attempted.note(id, &ProgressRecord::default(), &old);
            }
        }
        let oversized = self.store_attempted(attempted, &mut stored);
        if !stored.merge.is_empty() {
            patch.add_fn(if_unchanged(self.body, stored.merge));
        }
        Ok(Concluded {
            conclusion: Conclusion::UpdateFollows,
            unstored_base,
            oversized,
            erasure: None,
        })
    }

    /// Stores the diff-base, unless it is stored already. Returns the reason why it is not stored
    /// on an object that is being deleted: the object must not stay because there is no room for
    /// its diff-base.
    pub fn store_base(
        &self,
        essence: &Value,
        patch: &mut Patch,
    ) -> Result<Option<StorageError>, StorageError> {
        if !self.stores_base || self.essences.old.is_some_and(|old| equal(old, essence)) {
            return Ok(None);
        }
        let mut base = Patch::default();
        let stored = self.storages.diffbase.store(self.body, &mut base, essence);
        match stored.and_then(|()| check_size(self.body, patch, &base)) {
            Ok(()) => patch.merge_from(base),
            Err(error) if self.reason == Reason::Delete => return Ok(Some(error)),
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// Stores the attempted essences; returns them if they are too large for the object.
    fn store_attempted(
        &self,
        attempted: AttemptedEssences,
        patch: &mut Patch,
    ) -> Option<AttemptedEssences> {
        self.drop_untracked(patch);
        let place = self.storages.attempted.place()?;
        let mut added = Patch::default();
        attempted.store(place, self.body, &mut added);
        if !attempted.is_oversized(place) && check_size(self.body, patch, &added).is_ok() {
            patch.merge_from(added);
            return None;
        }
        AttemptedEssences::default().store(place, self.body, patch);
        Some(attempted)
    }
}

/// Returns a transformation that merges values into this version of the object only.
fn if_unchanged(body: &Body, merge: Map<String, Value>) -> PatchFn {
    let version = body.resource_version().map(str::to_owned);
    let merge = Value::Object(merge);
    PatchFn::new("follow_up", move |body: &mut Value| {
        let current = body.pointer("/metadata/resourceVersion");
        if current.and_then(Value::as_str) == version.as_deref() {
            json_patch::merge(body, &merge);
        }
        Ok(())
    })
    .dropped_after_conflict()
}

/// Rejects an addition to the patch with which the annotations of the object would be too large.
fn check_size(body: &Body, patch: &Patch, added: &Patch) -> Result<(), StorageError> {
    let patches = [patch, added];
    if patches
        .into_iter()
        .all(|patch| patched_annotations(patch).is_none())
    {
        return Ok(());
    }
    let size = annotations_size(body, &patches);
    if size > ANNOTATIONS_LIMIT {
        let limit = ANNOTATIONS_LIMIT;
        return Err(StorageError::TooLarge { size, limit });
    }
    Ok(())
}

/// The attempts that a cycle is concluded with.
#[derive(Clone, Copy)]
pub struct Attempts<'a> {
    /// The attempted essences before this cycle.
    pub prior: &'a AttemptedEssences,
    /// The attempts of this cycle.
    pub made: &'a [Attempted],
    /// Returns the essence with the patch of this cycle applied: own changes are not news. Called
    /// only if handlers are left, since it costs a copy of the object.
    pub after: &'a dyn Fn() -> Arc<Value>,
}

impl fmt::Debug for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts")
            .field("prior", &self.prior)
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

impl Attempts<'_> {
    fn note_into(&self, attempted: &mut AttemptedEssences) {
        if self.made.is_empty() {
            return;
        }
        let after = (self.after)();
        for attempt in self.made {
            attempted.note(&attempt.id, &attempt.record, &after);
        }
    }
}

/// The exits of daemons and timers, which the deletion of the object waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunnerExits {
    /// Some have not exited: the records stay, so that finished handlers are not called again.
    Awaited,
    /// All have exited.
    Exited,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn follow_up_applies_to_the_compared_version_only() {
        let compared = json!({"metadata": {"resourceVersion": "5"}});
        let merge = json!({"metadata": {"annotations": {"a": "b"}}});
        let merge = merge.as_object().cloned().unwrap();
        let function = if_unchanged(&Body::new(compared.clone()), merge);
        assert!(!function.is_repeated_after_conflict());

        let mut body = compared;
        function.call(&mut body).unwrap();
        assert_eq!(body["metadata"]["annotations"], json!({"a": "b"}));
        let newer = json!({"metadata": {"resourceVersion": "6"}});
        let mut body = newer.clone();
        function.call(&mut body).unwrap();
        assert_eq!(body, newer);
    }
}
