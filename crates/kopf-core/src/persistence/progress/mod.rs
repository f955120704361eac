//! The progress of handlers: the record, its storages, and the state of a cause.
//!
//! Storages read from bodies and write to patches; they send no requests.

mod annotations;
mod asynchronous;
mod multi;
pub mod record;
mod smart;
#[doc(hidden)] // Only the engine runs handlers.
pub mod state;
mod status;
pub mod storage;

pub use self::annotations::AnnotationsProgressStorage;
pub use self::asynchronous::{
    AsyncProgressStorage, AwaitedProgressStorage, ProgressChanges, ProgressRecords, ProgressSession,
};
pub use self::multi::MultiProgressStorage;
pub use self::record::ProgressRecord;
pub use self::smart::SmartProgressStorage;
pub use self::status::StatusProgressStorage;
pub use self::storage::{ProgressStorage, StorageError};
// What implementations outside of this crate need.
pub use crate::patch::Patch;
pub use crate::storage::StorageFuture;
