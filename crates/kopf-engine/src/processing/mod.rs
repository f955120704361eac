//! One cycle of one object: from a version of it to handlers and to what is to be written.
//!
//! A cycle decides with `kopf-core`, runs handlers through [`crate::execution`], and ends in a
//! patch. Who runs cycles, and when, is the business of [`crate::queueing`].

mod applying;
mod changing;
mod cycle;
mod indexing;
mod spawning;
mod watching;

pub(crate) use applying::{Applied, Pending};
pub(crate) use cycle::{Cycle, Decided, Verdict};
pub(crate) use indexing::index;
pub(crate) use watching::watch;

pub(crate) use crate::errors::describe;
pub(crate) use crate::execution::warn_unreadable;

/// What can fail in a cycle that is no handler's fault. The object is tried again later.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the object cannot be understood")]
    Body(#[from] kopf_core::body::Error),
    #[error(transparent)]
    Storage(#[from] kopf_core::storage::StorageError),
    #[error(transparent)]
    Filter(#[from] kopf_core::filter::Error),
    #[error(transparent)]
    Patch(#[from] kopf_core::patch::Error),
    #[error("the object cannot be patched")]
    Api(#[from] kopf_client::Error),
    #[error(
        "the annotations would have {size} bytes together with the diff-base, and may have {limit}: \
         keep the diff-base elsewhere by the setting persistence.diffbase_storage \
         (e.g. StatusDiffBaseStorage), or leave large fields out by its ignored_fields"
    )]
    TooLarge { size: usize, limit: usize },
    #[error("the object has no name, so it cannot be patched")]
    Nameless,
    #[error(
        "what could not be written is given up, because the object has changed: its handlers are \
         called again"
    )]
    GivenUp,
    #[error("a filter, a storage, a lifecycle or a transformation has panicked: {0}")]
    Panic(String),
}

impl Error {
    /// Whether the server will never accept what it was sent.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Api(error) => matches!(error.code(), Some(400 | 413 | 422)),
            // What is sent does not depend on when it is sent.
            Self::Patch(_) | Self::Nameless | Self::Panic(_) => true,
            _ => false,
        }
    }

    /// The message with its causes.
    pub(crate) fn chain(&self) -> String {
        describe(self)
    }
}
