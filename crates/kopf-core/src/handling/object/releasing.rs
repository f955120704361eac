//! The end of a deletion: the removal of the finalizer after all handlers have finished.
//!
//! The outcome is kept in memory until the object is gone. Whatever happens to the removal of the
//! finalizer, the handlers are not called again. The records of the handlers are erased by the
//! request that removes the finalizer, never before it: if the process dies in between, the next
//! one would find neither the records nor the object gone, and would call the handlers again.

use serde_json::{Map, Value};

use crate::body::Body;
use crate::cause::EventType;
use crate::finalizer::{Removal, is_blocked};
use crate::handler::HandlerId;
use crate::patch::Patch;
use crate::progress::state::State;
use crate::progress::{ProgressChanges, ProgressRecord, ProgressStorage};
use crate::storage::StorageError;

/// The erasure of the records of a deletion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Erasure {
    /// A merge patch of the object.
    pub on_object: Map<String, Value>,
    /// The records are kept outside of the object, and are erased after the finalizer.
    pub is_elsewhere: bool,
}

/// A deletion whose handlers have all finished, until the object is gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    records: Vec<(HandlerId, ProgressRecord)>,
    /// The ids under which there may be records.
    traces: Vec<String>,
    erasure: Erasure,
    is_recorded: bool,
}

impl Release {
    /// Takes the finished records of a deletion. `owned`: the ids of all change handlers.
    pub fn new(progress: &State, owned: &[HandlerId], erasure: Erasure) -> Self {
        let records = progress.active();
        let traces = progress.traces(owned.iter()).into_iter();
        Self {
            records: records
                .map(|(id, record)| (id.clone(), record.clone()))
                .collect(),
            traces: traces.map(str::to_owned).collect(),
            is_recorded: erasure.is_elsewhere,
            erasure,
        }
    }

    /// Returns `true` if the removal of the finalizer is all that is left to do with this version.
    pub fn is_left(&self, event: EventType, body: &Body, finalizer: &str) -> bool {
        event != EventType::Deleted && body.is_deleting() && is_blocked(body, finalizer)
    }

    /// Returns the removal of the finalizer together with the records.
    pub fn removal(&self, finalizer: &str) -> Removal {
        Removal::new(finalizer).erasing(self.erasure.on_object.clone())
    }

    /// Returns the merge patch that erases the records from the object.
    pub fn erasure(&self) -> &Map<String, Value> {
        &self.erasure.on_object
    }

    /// Returns `true` if a restarted operator would know that the handlers have finished.
    pub fn is_recorded(&self) -> bool {
        self.is_recorded || self.records.is_empty()
    }

    /// Adds the outcomes of the handlers to the patch: for an object whose finalizer cannot be
    /// removed now.
    ///
    /// # Errors
    /// Returns the error of the storage.
    pub fn record(
        &self,
        storage: &dyn ProgressStorage,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError> {
        for (id, record) in &self.records {
            storage.store(id, record, body, patch)?;
        }
        storage.flush()
    }

    /// Notes that the outcomes are recorded on this version of the object, and are to be erased with
    /// the finalizer.
    ///
    /// # Errors
    /// Returns the error of the storage.
    pub fn note_recorded(
        &mut self,
        storage: &dyn ProgressStorage,
        body: &Body,
    ) -> Result<(), StorageError> {
        self.is_recorded = true;
        let mut erased = Patch {
            merge: std::mem::take(&mut self.erasure.on_object),
            ..Patch::default()
        };
        let purged = self.purge(storage, body, &mut erased);
        self.erasure.on_object = erased.merge;
        purged
    }

    /// Notes that the finalizer is removed, so that there is nothing to record any longer.
    pub fn note_removed(&mut self) {
        self.is_recorded = true;
    }

    /// Purges records outside of the object, once the finalizer is removed.
    ///
    /// # Errors
    /// Returns the error of the storage.
    pub fn purge_elsewhere(
        &mut self,
        storage: &dyn ProgressStorage,
        body: &Body,
    ) -> Result<(), StorageError> {
        if !std::mem::take(&mut self.erasure.is_elsewhere) {
            return Ok(());
        }
        self.purge(storage, body, &mut Patch::default())?;
        storage.flush()
    }

    /// Takes the changes that erase the records of an asynchronous storage, once the finalizer is
    /// removed; empty if there are none.
    pub fn take_erasures(&mut self) -> ProgressChanges {
        if !std::mem::take(&mut self.erasure.is_elsewhere) {
            return ProgressChanges::default();
        }
        self.traces.iter().map(|id| (id.clone(), None)).collect()
    }

    fn purge(
        &self,
        storage: &dyn ProgressStorage,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError> {
        for id in &self.traces {
            storage.purge(id, body, patch)?;
        }
        Ok(())
    }
}
