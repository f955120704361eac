//! What can go wrong with state that is kept on objects.
//!
//! Shared by [progress](crate::progress) and [diff-base](crate::diffbase) storages, because users
//! who write their own usually write both.

use std::pin::Pin;

use crate::essence;
use crate::keys;

/// The result of a call of an asynchronous storage, when it is ready.
pub type StorageFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StorageError>> + Send + 'a>>;

/// Why a storage cannot read or write. It stops the cycle of that object, not its handlers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// There is a text, but it is not JSON.
    #[error("the state stored in {place} is not JSON")]
    Undecodable {
        /// The annotation or the field.
        place: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// There is JSON, but of another type than ever stored there.
    #[error("the state stored in {place} is not {expected}")]
    Unexpected {
        /// The annotation or the field.
        place: String,
        /// What it should be.
        expected: &'static str,
    },
    /// The state cannot be written as JSON.
    #[error("the state for {place} cannot be written as JSON")]
    Unwritable {
        /// The annotation or the field.
        place: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// Nothing can be kept under this id.
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
    /// Whether there is something that nobody can read, and will not be able to later.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Undecodable { .. } | Self::Unexpected { .. })
    }

    /// Wraps an error of a custom storage.
    pub fn custom(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Custom(error.into())
    }
}
