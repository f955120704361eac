//! Failures of the framework while an object is processed, as opposed to failures of handlers.

use std::fmt;

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
    Filter(#[from] kopf_core::filter::Error),
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

impl Error {
    /// Returns `true` if the server will never accept the payload.
    pub(crate) fn is_rejection(&self) -> bool {
        match self {
            Self::Api(error) => matches!(error.code(), Some(400 | 413 | 422)) || error.is_denial(),
            // The payload does not depend on when it is sent.
            Self::Patch(_) | Self::Nameless | Self::Panic(_) => true,
            _ => false,
        }
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
