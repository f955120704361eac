//! Failures of the framework while an object is processed, as opposed to failures of handlers.

use std::fmt;

use kopf_core::object::cycle;
use kopf_core::storage::StorageError;

use crate::errors::describe;

/// A failure of the framework in a cycle. The object is tried again later.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot parse the object")]
    Body(#[from] kopf_core::body::Error),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("cannot load {stored}")]
    Load {
        stored: Stored,
        source: StorageError,
    },
    #[error("cannot save {stored}")]
    Save {
        stored: Stored,
        source: StorageError,
    },
    #[error(transparent)]
    Filter(#[from] kopf_core::matching::FilterError),
    #[error(transparent)]
    Lifecycle(#[from] kopf_core::lifecycle::Error),
    #[error(transparent)]
    Patch(#[from] kopf_core::patch::Error),
    #[error("cannot patch the object")]
    Api(#[from] kopf_client::Error),
    #[error(
        "The results are not written, because this replica does not hold the Lease of the object any \
         longer: the handlers are called again by the replica that holds it."
    )]
    NotHeld,
    #[error("cannot patch the object: it has no name")]
    Nameless,
    #[error(
        "the rejected patch is dropped because the object has changed{}",
        if *is_finished { "" } else { ": its handlers are called again" }
    )]
    Dropped {
        /// The handlers have finished a deletion, and are not called again.
        is_finished: bool,
    },
    #[error("a filter, a storage, a lifecycle or a transformation panicked: {0}")]
    Panic(String),
}

impl From<cycle::Error> for Error {
    fn from(error: cycle::Error) -> Self {
        match error {
            cycle::Error::Filter(error) => Self::Filter(error),
            cycle::Error::Storage(error) => Self::Storage(error),
        }
    }
}

impl Error {
    /// Returns `true` if the server will never accept the payload.
    pub(crate) fn is_rejection(&self) -> bool {
        match self {
            Self::Api(error) => {
                matches!(error.code(), Some(400 | 422)) || error.is_denial() || error.is_too_large()
            }
            // The payload does not depend on when it is sent.
            Self::Patch(_) | Self::Nameless | Self::Panic(_) => true,
            _ => false,
        }
    }

    /// Returns the limit of the server, in bytes, if the payload exceeds it.
    pub(crate) fn exceeded_limit(&self) -> Option<usize> {
        match self {
            Self::Api(error) if error.is_too_large() => Some(error.size_limit()),
            _ => None,
        }
    }

    /// Returns the message for the handler that has contributed this many bytes to a payload that
    /// exceeds the limit.
    pub(crate) fn too_large(&self, size: usize) -> String {
        let limit = self.exceeded_limit().unwrap_or_default();
        let error = self.chain();
        if size <= "{}".len() {
            // The size of what functions change is unknown.
            return format!(
                "its changes exceed the {limit} bytes that the server accepts: {error}"
            );
        }
        format!(
            "its result and changes have {size} bytes, and the server accepts {limit} bytes: {error}"
        )
    }

    /// Returns the message with its causes.
    pub(crate) fn chain(&self) -> String {
        describe(self)
    }
}

/// The content of a storage, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    Progress,
    DiffBase,
}

impl fmt::Display for Stored {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Progress => "the progress (settings.persistence.progress_storage)",
            Self::DiffBase => "the diff-base (settings.persistence.diffbase_storage)",
        })
    }
}
