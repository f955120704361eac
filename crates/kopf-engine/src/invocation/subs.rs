//! Sub-handlers as a front sees them.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use kopf_core::handler::HandlerId;
use kopf_core::lifecycle::Lifecycle;
use kopf_core::outcome::HandlerError;
use kopf_core::storage::StorageError;

use super::Handler;

/// Registers and runs the sub-handlers of a running handler. Cheap to clone: clones belong to the
/// same call.
#[derive(Clone)]
pub struct SubHandlers(Arc<dyn RunSubHandlers>);

/// The part of the engine that runs sub-handlers.
pub(crate) trait RunSubHandlers: Send + Sync {
    /// See [`SubHandlers::register`].
    fn register(&self, handler: Handler) -> Result<(), RegistrationError>;

    /// See [`SubHandlers::refuse`].
    fn refuse(&self, error: HandlerError);

    /// See [`SubHandlers::execute`].
    fn execute(self: Arc<Self>) -> BoxFuture<'static, Result<(), HandlerError>>;

    /// See [`SubHandlers::execute_these`].
    fn execute_these(
        self: Arc<Self>,
        handlers: Vec<Handler>,
        lifecycle: Option<Arc<dyn Lifecycle>>,
    ) -> BoxFuture<'static, Result<(), HandlerError>>;
}

/// The reason why a sub-handler cannot be registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// The parent has no change to compare with.
    #[error(
        "sub-handler '{id}' has the filters old/new, which only sub-handlers of handlers for \
         updates and fields can have"
    )]
    NoChanges {
        /// The full id of the sub-handler.
        id: HandlerId,
    },
    /// The progress storage cannot store the id.
    #[error("cannot register a sub-handler: {0}")]
    Id(#[source] StorageError),
}

impl SubHandlers {
    pub(crate) fn new(runner: Arc<dyn RunSubHandlers>) -> Self {
        Self(runner)
    }

    /// Adds a sub-handler, to be run by [`execute`](Self::execute). Its id is prefixed with the
    /// parent's id.
    ///
    /// # Errors
    /// If its progress could not be stored, or its filters need a change that the parent lacks.
    pub fn register(&self, handler: Handler) -> Result<(), RegistrationError> {
        self.0.register(handler)
    }

    /// Makes the parent fail instead of running its sub-handlers, for fronts in which registering
    /// cannot return an error. The first error counts.
    pub fn refuse(&self, error: HandlerError) {
        self.0.refuse(error);
    }

    /// Runs the registered sub-handlers that are due. The engine does so as well when the parent
    /// returns without an error.
    ///
    /// # Errors
    /// While some of them are unfinished: the parent must return this error as it is, and is
    /// called again. Also if one was [refused](Self::refuse).
    pub fn execute(&self) -> BoxFuture<'static, Result<(), HandlerError>> {
        Arc::clone(&self.0).execute()
    }

    /// Runs these sub-handlers, beside the registered ones; `lifecycle` replaces the operator's.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), and if one of them cannot be registered.
    pub fn execute_these(
        &self,
        handlers: Vec<Handler>,
        lifecycle: Option<Arc<dyn Lifecycle>>,
    ) -> BoxFuture<'static, Result<(), HandlerError>> {
        Arc::clone(&self.0).execute_these(handlers, lifecycle)
    }
}

impl fmt::Debug for SubHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubHandlers")
    }
}
