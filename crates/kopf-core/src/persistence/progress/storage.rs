//! The trait of progress storages.

use std::fmt::Debug;

use serde_json::Value;

use super::{AsyncProgressStorage, ProgressRecord};
use crate::body::Body;
use crate::field::FieldPath;
use crate::patch::Patch;
pub use crate::storage::StorageError;

/// A storage of the [records](ProgressRecord) of handlers between attempts and across restarts.
///
/// The provided storages keep them on the object itself; a custom one may keep them anywhere. It is
/// called synchronously in the cycle of one object, so it must not block for long. An error stops
/// the cycle, which is retried later.
pub trait ProgressStorage: Send + Sync + Debug {
    /// Reads the record of one handler; `None` if it was never stored or is purged.
    fn fetch(&self, key: &str, body: &Body) -> Result<Option<ProgressRecord>, StorageError>;

    /// Stores the record of one handler, usually by adding it to the patch.
    fn store(
        &self,
        key: &str,
        record: &ProgressRecord,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError>;

    /// Removes the record of one handler, both the stored one and the one in the patch.
    fn purge(&self, key: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError>;

    /// Changes the object in order to trigger an event, or reverts that change.
    fn touch(
        &self,
        body: &Body,
        patch: &mut Patch,
        value: Option<&str>,
    ) -> Result<(), StorageError>;

    /// Removes the data of this storage from the object's essence, so that storing a record is
    /// never a change to be handled.
    fn clear(&self, essence: &mut Value) -> Result<(), StorageError>;

    /// Shortens the messages of records evenly, and then drops them, until the annotations of the
    /// object have at most this many bytes. Does nothing by default.
    fn shorten(&self, _body: &Body, _patch: &mut Patch, _limit: usize) -> Result<(), StorageError> {
        Ok(())
    }

    /// Checks that records can be stored under this id. Called before handlers are registered.
    fn check_id(&self, _id: &str) -> Result<(), StorageError> {
        Ok(())
    }

    /// Returns `true` if a record that is stored and purged in the same patch leaves no trace, so
    /// that both can be omitted. `false` by default: custom storages may have side effects.
    fn leaves_no_trace(&self) -> bool {
        false
    }

    /// Returns the field with the records if they are stored only in the status. Other state of the
    /// framework is then stored beside it instead of in annotations.
    fn status_field(&self) -> Option<&FieldPath> {
        None
    }

    /// Returns the asynchronous storage behind this one, if there is one: see
    /// [`AwaitedProgressStorage`](super::AwaitedProgressStorage).
    fn asynchronous(&self) -> Option<&dyn AsyncProgressStorage> {
        None
    }

    /// Flushes. Called once after each batch of stores and after each purge.
    fn flush(&self) -> Result<(), StorageError> {
        Ok(())
    }
}
