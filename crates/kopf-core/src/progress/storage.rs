//! The contract of progress storages.

use std::fmt::Debug;

use serde_json::Value;

use super::{AsyncProgressStorage, ProgressRecord};
use crate::body::Body;
use crate::patch::Patch;
pub use crate::storage::StorageError;

/// Keeps the [records](ProgressRecord) of handlers between the attempts, also across restarts.
///
/// The provided storages keep them on the object itself; a custom one may keep them anywhere.
/// It is called synchronously inside the cycle of one object, so it must not block for long.
/// An error stops the cycle; it is tried again later.
pub trait ProgressStorage: Send + Sync + Debug {
    /// Reads the record of one handler; none if it was never stored or is purged.
    fn fetch(&self, key: &str, body: &Body) -> Result<Option<ProgressRecord>, StorageError>;

    /// Stores the record of one handler, usually by adding it to the patch.
    fn store(
        &self,
        key: &str,
        record: &ProgressRecord,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError>;

    /// Forgets the record of one handler: both the stored one and the one in the patch.
    fn purge(&self, key: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError>;

    /// Changes the object in order to get an event for it, or takes that change back.
    fn touch(
        &self,
        body: &Body,
        patch: &mut Patch,
        value: Option<&str>,
    ) -> Result<(), StorageError>;

    /// Takes everything that this storage keeps on the object out of the object's essence, so
    /// that storing a record is never a change to be handled.
    fn clear(&self, essence: &mut Value) -> Result<(), StorageError>;

    /// Says whether records can be kept under this id. Asked before handlers are registered, so
    /// that what could never be written is refused in time.
    fn check_id(&self, _id: &str) -> Result<(), StorageError> {
        Ok(())
    }

    /// Whether a record that is stored and purged in the same patch leaves nothing behind, so that
    /// both can be left out. Not assumed by default: others may be told about it.
    fn leaves_no_trace(&self) -> bool {
        false
    }

    /// The asynchronous storage behind this one, if there is any: see
    /// [`AwaitedProgressStorage`](super::AwaitedProgressStorage).
    fn asynchronous(&self) -> Option<&dyn AsyncProgressStorage> {
        None
    }

    /// Called once after each batch of stores and after each purge.
    fn flush(&self) -> Result<(), StorageError> {
        Ok(())
    }
}
