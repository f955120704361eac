//! Errors of storages of state on objects.
//!
//! Shared by [progress](crate::progress) and [diff-base](crate::diffbase) storages, because custom
//! ones usually come in pairs.

use std::pin::Pin;

use crate::essence;
use crate::keys;

/// A future of a call of an asynchronous storage.
pub type StorageFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StorageError>> + Send + 'a>>;

/// The error of a storage. It stops the cycle of that object, not its handlers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The stored string is not JSON.
    #[error("the state stored in {place} is not JSON")]
    Undecodable {
        /// The annotation or the field.
        place: String,
        /// The error of the parser.
        #[source]
        source: serde_json::Error,
    },
    /// The stored JSON has an unexpected type.
    #[error("the state stored in {place} is not {expected}")]
    Unexpected {
        /// The annotation or the field.
        place: String,
        /// The expected type.
        expected: &'static str,
    },
    /// The state cannot be serialised.
    #[error("the state for {place} cannot be written as JSON")]
    Unwritable {
        /// The annotation or the field.
        place: String,
        /// The error of the serialiser.
        #[source]
        source: serde_json::Error,
    },
    /// No record can be stored under this id.
    #[error(transparent)]
    Id(#[from] keys::InvalidId),
    /// The essence cannot be built.
    #[error("the essence of the object cannot be built")]
    Essence(#[from] essence::Error),
    /// The annotations of the object would exceed the limit of Kubernetes.
    #[error(
        "the annotations would have {size} bytes together with the diff-base, and may have {limit}: \
         keep the diff-base elsewhere by the setting persistence.diffbase_storage \
         (e.g. StatusDiffBaseStorage), or leave large fields out by its ignored_fields"
    )]
    TooLarge {
        /// The size of all annotations in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// An asynchronous storage was called outside of a session.
    #[error(
        "the storage is asynchronous and was not loaded: it cannot be used inside of another storage"
    )]
    NotLoaded,
    /// An error of a custom storage.
    #[error("the custom storage failed")]
    Custom(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StorageError {
    /// Returns `true` if the stored state is permanently unreadable.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Undecodable { .. } | Self::Unexpected { .. })
    }

    /// Wraps an error of a custom storage.
    pub fn custom(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Custom(error.into())
    }
}
