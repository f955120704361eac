//! The interface of sub-handlers for frontends.

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

/// Error of the registration of a sub-handler.
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

    /// Adds a sub-handler for [`execute`](Self::execute). Its id is prefixed with the parent's id.
    ///
    /// # Errors
    /// If its progress cannot be stored, or its filters need a change that the parent lacks.
    pub fn register(&self, handler: Handler) -> Result<(), RegistrationError> {
        self.0.register(handler)
    }

    /// Makes the parent fail instead of running its sub-handlers, for frontends whose registration
    /// cannot return an error. Only the first error is used.
    pub fn refuse(&self, error: HandlerError) {
        self.0.refuse(error);
    }

    /// Runs the registered sub-handlers that are due. The engine also calls this when the parent
    /// returns without an error.
    ///
    /// # Errors
    /// If some sub-handlers are unfinished, or if a registration was [refused](Self::refuse). The
    /// parent must return the error unchanged, and is called again in the former case.
    pub fn execute(&self) -> BoxFuture<'static, Result<(), HandlerError>> {
        Arc::clone(&self.0).execute()
    }

    /// Runs these sub-handlers in addition to the registered ones; `lifecycle` replaces the
    /// operator's.
    ///
    /// # Errors
    /// Same as [`execute`](Self::execute), and if one of them cannot be registered.
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
