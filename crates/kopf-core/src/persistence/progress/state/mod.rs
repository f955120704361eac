//! The progress of all handlers of one object in one cycle.
//!
//! It is loaded from the storage, updated by outcomes, and written to the patch. Records of
//! handlers that do not belong to the current cause are *passive*: they are counted and purged, but
//! neither run nor written. `now` is an argument.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{ProgressRecord, ProgressStorage, StorageError};
use crate::body::Body;
use crate::cause::Reason;
use crate::handler::HandlerId;
use crate::outcome::Outcome;
use crate::patch::Patch;
use crate::sizes::{MESSAGE_LIMIT, cut};

/// The records of handlers, in the order of loading.
#[derive(Clone, Debug, Default)]
pub struct State {
    entries: Vec<Entry>,
    purpose: Option<Reason>,
    unreadable: Arc<[StorageError]>,
}

#[derive(Clone, Debug)]
struct Entry {
    id: HandlerId,
    record: ProgressRecord,
    /// The stored record, if there is one.
    origin: Option<ProgressRecord>,
    /// `true` if it belongs to the current cause.
    active: bool,
}

impl Entry {
    fn is_finished(&self) -> bool {
        self.record.success || self.record.failure
    }

    fn is_of(&self, purpose: &str) -> bool {
        self.record.purpose.as_deref() == Some(purpose)
    }
}

/// The remains of a superseded cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// The reason of that cause, as in the records.
    pub purpose: String,
    /// The number of succeeded handlers.
    pub succeeded: usize,
    /// The number of permanently failed handlers.
    pub failed: usize,
    /// The number of unfinished handlers.
    pub left: usize,
}

/// The numbers of finished handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of succeeded handlers.
    pub succeeded: usize,
    /// The number of permanently failed handlers.
    pub failed: usize,
}

/// The records that are carried over to an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarriedOver {
    /// Finished handlers and sub-handlers, which are not called again.
    pub kept: BTreeSet<String>,
    /// Handlers with attempts that have neither succeeded nor failed, whose records are reset.
    pub interrupted: BTreeSet<String>,
}

impl State {
    /// Loads the records of these handlers as passive ones.
    ///
    /// Unreadable records are an error, unless the object is being deleted: then they count as
    /// absent (see [`unreadable`](Self::unreadable)), because they would block the deletion.
    pub fn load<'a>(
        storage: &dyn ProgressStorage,
        body: &Body,
        owned: impl Iterator<Item = &'a HandlerId>,
    ) -> Result<Self, StorageError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut unreadable = Vec::new();
        for id in owned {
            if entries.iter().any(|entry| entry.id == *id) {
                continue;
            }
            match storage.fetch(id, body) {
                Ok(None) => {}
                Ok(Some(record)) => entries.push(Entry {
                    id: Arc::clone(id),
                    origin: Some(record.clone()),
                    record,
                    active: false,
                }),
                Err(error) if error.is_unreadable() && body.is_deleting() => {
                    unreadable.push(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            entries,
            purpose: None,
            unreadable: unreadable.into(),
        })
    }

    /// Returns the errors of unreadable records, which count as absent. Worth a warning.
    pub fn unreadable(&self) -> &[StorageError] {
        &self.unreadable
    }

    /// Resets the selected records: the next attempt of their handlers is the first one, for this purpose.
    pub fn reset(
        &mut self,
        purpose: Option<Reason>,
        is_selected: impl Fn(&HandlerId, &ProgressRecord) -> bool,
    ) {
        for entry in &mut self.entries {
            if is_selected(&entry.id, &entry.record) {
                entry.record = ProgressRecord {
                    purpose: purpose.map(|purpose| purpose.as_str().to_owned()),
                    ..ProgressRecord::default()
                };
            }
        }
    }

    /// Replaces the record of a handler by what this process knows, which can be newer than the stored one, or
    /// missing there; `None` for no attempts.
    pub fn recall(&mut self, id: &HandlerId, known: Option<ProgressRecord>) {
        let entry = self.entries.iter_mut().find(|entry| entry.id == *id);
        match (entry, known) {
            (Some(entry), known) => entry.record = known.unwrap_or_default(),
            (None, Some(record)) => self.entries.push(Entry {
                id: Arc::clone(id),
                record,
                origin: None,
                active: false,
            }),
            (None, None) => {}
        }
    }

    /// Activates the handlers of the current cause: their records continue, or start now. Reconcile
    /// handlers have no purpose.
    pub fn activate<'a>(
        &mut self,
        ids: impl Iterator<Item = &'a HandlerId>,
        purpose: impl Into<Option<Reason>>,
        now: Timestamp,
    ) {
        let purpose = purpose.into();
        self.purpose = purpose;
        for id in ids {
            if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == *id) {
                entry.active = true;
                entry.record.started.get_or_insert(now);
            } else {
                self.entries.push(Entry {
                    id: Arc::clone(id),
                    record: ProgressRecord {
                        started: Some(now),
                        purpose: purpose.map(|purpose| purpose.as_str().to_owned()),
                        ..ProgressRecord::default()
                    },
                    origin: None,
                    active: true,
                });
            }
        }
    }

    /// Returns the remains of other causes, one item for each. Records without a purpose match any
    /// cause.
    pub fn extras(&self, reason: Reason) -> Vec<Extra> {
        let mut extras: Vec<Extra> = Vec::new();
        for entry in self.extra_entries(reason) {
            let purpose = entry.record.purpose.as_deref().unwrap_or_default();
            let succeeded = usize::from(entry.record.success);
            let failed = usize::from(entry.record.failure);
            let left = usize::from(!entry.is_finished());
            if let Some(extra) = extras.iter_mut().find(|extra| extra.purpose == purpose) {
                extra.succeeded += succeeded;
                extra.failed += failed;
                extra.left += left;
            } else {
                let purpose = purpose.to_owned();
                extras.push(Extra {
                    purpose,
                    succeeded,
                    failed,
                    left,
                });
            }
        }
        extras
    }

    /// Returns `true` if there are remains of other causes.
    pub fn has_extras(&self, reason: Reason) -> bool {
        self.extra_entries(reason).next().is_some()
    }

    fn extra_entries(&self, reason: Reason) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(move |entry| entry.record.purpose.is_some() && !entry.is_of(reason.as_str()))
    }

    /// Assigns the active records to the current cause: succeeded handlers are not run again,
    /// attempts and times continue.
    pub fn repurpose(&mut self, reason: Reason) {
        for entry in self.entries.iter_mut().filter(|entry| entry.active) {
            entry.record.purpose = Some(reason.as_str().to_owned());
        }
    }

    /// Returns the ids of all records, active or passive.
    pub fn ids(&self) -> impl Iterator<Item = &HandlerId> {
        self.entries.iter().map(|entry| &entry.id)
    }

    /// Returns the record of a handler.
    pub fn record(&self, id: &str) -> Option<&ProgressRecord> {
        self.entry(id).map(|entry| &entry.record)
    }

    /// Returns `true` if all records are stored, possibly in another state.
    pub fn is_stored(&self) -> bool {
        self.entries.iter().all(|entry| entry.origin.is_some())
    }

    /// Returns the number of finished attempts of an active handler, and the time of its first
    /// selection.
    pub fn attempt(&self, id: &str) -> Option<(u32, Timestamp)> {
        let entry = self.entry(id).filter(|entry| entry.active)?;
        Some((entry.record.retries, entry.record.started?))
    }

    /// Returns `true` if a handler of the current cause can be run: it is neither finished nor
    /// delayed.
    pub fn is_awake(&self, id: &str, now: Timestamp) -> bool {
        self.entry(id).is_some_and(|entry| {
            entry.active
                && !entry.is_finished()
                && entry.record.delayed.is_none_or(|delayed| delayed <= now)
        })
    }

    /// Makes the delayed handlers with these ids due now, and their sub-handlers.
    pub fn wake(&mut self, ids: &[HandlerId]) {
        let is_meant = |own: &str| {
            ids.iter().any(|id| {
                let rest = own.strip_prefix(&**id);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        for entry in &mut self.entries {
            if entry.active && !entry.is_finished() && is_meant(&entry.id) {
                entry.record.delayed = None;
            }
        }
    }

    /// Adds the outcome of an attempt to the record. Unknown handlers are ignored.
    pub fn apply(&mut self, id: &str, outcome: &Outcome, now: Timestamp) {
        let Some(entry) = self.entries.iter_mut().find(|entry| *entry.id == *id) else {
            return;
        };
        let record = &mut entry.record;
        record.retries = record.retries.saturating_add(1);
        if outcome.is_final {
            record.stopped.get_or_insert(now);
        }
        record.delayed = outcome
            .delay
            .filter(|_| !outcome.is_final)
            .map(|delay| later(now, delay));
        record.success = outcome.is_final && outcome.error.is_none();
        record.failure = outcome.is_final && outcome.error.is_some();
        let message = outcome.error.as_deref();
        record.message = message.map(|message| cut(message, MESSAGE_LIMIT));
        if !outcome.subrefs.is_empty() {
            record
                .subrefs
                .extend(outcome.subrefs.iter().map(ToString::to_string));
            record.subrefs.sort_unstable();
            record.subrefs.dedup();
        }
    }

    /// Turns the last outcome of a handler into a permanent failure. Returns `false` if it has no
    /// record here.
    pub fn fail(&mut self, id: &str, message: &str, now: Timestamp) -> bool {
        let entry = self.entries.iter_mut().find(|entry| *entry.id == *id);
        let Some(entry) = entry.filter(|entry| entry.active) else {
            return false;
        };
        entry.record.fail(message, now);
        true
    }

    /// Stores the active records that have changed, including those of handlers that were not run
    /// yet.
    pub fn store(
        &self,
        storage: &dyn ProgressStorage,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError> {
        for entry in self.entries.iter().filter(|entry| entry.active) {
            if entry.origin.as_ref() != Some(&entry.record) {
                storage.store(&entry.id, &entry.record, body, patch)?;
            }
        }
        storage.flush()
    }

    /// Stores the active records of unfinished handlers that have changed, and purges those of finished ones.
    pub fn store_unfinished(
        &self,
        storage: &dyn ProgressStorage,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError> {
        for entry in self.entries.iter().filter(|entry| entry.active) {
            if !entry.is_finished() {
                if entry.origin.as_ref() != Some(&entry.record) {
                    storage.store(&entry.id, &entry.record, body, patch)?;
                }
            } else if entry.origin.is_some() {
                storage.purge(&entry.id, body, patch)?;
            }
        }
        storage.flush()
    }

    /// Purges unneeded records: at the end of a cause, those of all own handlers and their
    /// sub-handlers; before that, all but those of the current cause.
    ///
    /// Records of other operators, or of renamed handlers, are kept.
    pub fn purge<'a>(
        &self,
        storage: &dyn ProgressStorage,
        body: &Body,
        patch: &mut Patch,
        owned: impl Iterator<Item = &'a HandlerId>,
    ) -> Result<(), StorageError> {
        let is_done = self.is_done();
        let kept = |id: &str| {
            let mut active = self.entries.iter().filter(|entry| entry.active && !is_done);
            active.any(|entry| *entry.id == *id || has_subref(&entry.record, id))
        };
        for id in self.traces(owned) {
            if !kept(id) {
                storage.purge(id, body, patch)?;
            }
        }
        storage.flush()
    }

    /// Returns the ids under which there may be records: of all own handlers and their
    /// sub-handlers.
    pub fn traces<'s, 'o: 's>(
        &'s self,
        owned: impl Iterator<Item = &'o HandlerId>,
    ) -> Vec<&'s str> {
        let known = self.entries.iter().map(|entry| &*entry.id);
        let subrefs = self.entries.iter().flat_map(|entry| &entry.record.subrefs);
        let ids = owned
            .map(|id| -> &'s str { id })
            .chain(known)
            .chain(subrefs.map(String::as_str));
        let mut traces: Vec<&str> = Vec::new();
        for id in ids {
            if !traces.contains(&id) {
                traces.push(id);
            }
        }
        traces
    }

    /// Returns the records of the current cause.
    pub fn active(&self) -> impl Iterator<Item = (&HandlerId, &ProgressRecord)> {
        let active = self.entries.iter().filter(|entry| entry.active);
        active.map(|entry| (&entry.id, &entry.record))
    }

    /// Prepares the records for an update that follows. The finished handlers that are not outdated
    /// keep their records, with the purpose `update`. The records of interrupted handlers are reset,
    /// and all other records are purged.
    ///
    /// A handler with an outdated sub-handler is called again. Its record is reset and still refers
    /// to its sub-handlers, so that the kept ones among them are purged in the end.
    pub fn carry_over(
        &self,
        storage: &dyn ProgressStorage,
        body: &Body,
        patch: &mut Patch,
        outdated: &BTreeSet<&str>,
    ) -> Result<CarriedOver, StorageError> {
        let mut carried = CarriedOver::default();
        for entry in &self.entries {
            let record = &entry.record;
            let subs = || record.subrefs.iter().map(String::as_str);
            let is_interrupted = !entry.is_finished() && record.retries > 0;
            let is_repeated = outdated.contains(&*entry.id) || !entry.is_finished();
            let has_outdated_subs = subs().any(|sub| outdated.contains(sub));
            let is_dropped = |sub| outdated.contains(sub) || (is_repeated && !has_outdated_subs);
            let (dropped, kept): (Vec<_>, Vec<_>) = subs().partition(|sub| is_dropped(*sub));
            for sub in dropped {
                storage.purge(sub, body, patch)?;
            }
            carried.kept.extend(kept.into_iter().map(str::to_owned));
            if is_interrupted {
                carried.interrupted.insert(entry.id.to_string());
            }
            let mut next = ProgressRecord {
                purpose: Some(Reason::Update.as_str().to_owned()),
                ..ProgressRecord::default()
            };
            if has_outdated_subs {
                next.subrefs.clone_from(&record.subrefs);
            } else if !is_repeated {
                carried.kept.insert(entry.id.to_string());
                next = ProgressRecord {
                    purpose: next.purpose,
                    ..record.clone()
                };
            } else if !is_interrupted {
                storage.purge(&entry.id, body, patch)?;
                continue;
            }
            storage.store(&entry.id, &next, body, patch)?;
        }
        storage.flush()?;
        Ok(carried)
    }

    /// Returns `true` if all handlers of the current cause have succeeded or failed, or if there
    /// are none.
    pub fn is_done(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| !entry.active || entry.is_finished())
    }

    /// Returns the delays of the unfinished handlers of the current cause; zero for due ones.
    pub fn delays(&self, now: Timestamp) -> Vec<Duration> {
        let unfinished = self
            .entries
            .iter()
            .filter(|entry| entry.active && !entry.is_finished());
        unfinished
            .map(|entry| {
                entry
                    .record
                    .delayed
                    .map_or(Duration::ZERO, |d| until(now, d))
            })
            .collect()
    }

    /// Counts the finished handlers of the current cause, including records without a purpose.
    pub fn counts(&self) -> Counts {
        let counted =
            self.entries
                .iter()
                .filter(|entry| match (self.purpose, &entry.record.purpose) {
                    (Some(purpose), Some(own)) => purpose.as_str() == own,
                    _ => true,
                });
        counted.fold(Counts::default(), |counts, entry| Counts {
            succeeded: counts.succeeded + usize::from(entry.record.success),
            failed: counts.failed + usize::from(entry.record.failure),
        })
    }

    fn entry(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| *entry.id == *id)
    }
}

fn has_subref(record: &ProgressRecord, id: &str) -> bool {
    record.subrefs.iter().any(|subref| subref == id)
}

/// Returns the time after a delay; saturates at the maximum.
fn later(now: Timestamp, delay: Duration) -> Timestamp {
    now.checked_add(delay).unwrap_or(Timestamp::MAX)
}

fn until(now: Timestamp, moment: Timestamp) -> Duration {
    Duration::try_from(moment.duration_since(now)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests;
