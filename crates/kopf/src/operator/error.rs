//! Errors of building and running operators.

use kopf_core::{namespace, settings};
use tokio::task::JoinError;

/// An error of building or running an operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The declaration of a handler is invalid.
    #[error("invalid handler {handler:?}: {message}")]
    Handler {
        /// The id, or the name of the function.
        handler: String,
        /// The reason.
        message: String,
    },
    /// A namespace pattern is invalid.
    #[error("invalid namespace pattern {pattern:?}")]
    Namespaces {
        /// The pattern.
        pattern: String,
        /// The reason.
        #[source]
        source: namespace::Error,
    },
    /// The address for probes is invalid.
    #[error("cannot serve probes: {0}")]
    Liveness(kopf_engine::probing::EndpointError),
    /// The types of a resource cannot be merged into a CRD.
    #[error("cannot build the CRD {name}: {message}")]
    Definition {
        /// The name of the CRD.
        name: String,
        /// The reason.
        message: String,
    },
    /// The address for metrics is invalid.
    #[error("cannot serve metrics: {0}")]
    Metrics(kopf_engine::probing::EndpointError),
    /// The settings are invalid.
    #[error("invalid settings")]
    Settings(#[from] settings::Errors),
    /// The operator failed while running.
    #[error(transparent)]
    Engine(#[from] kopf_engine::operator::Error),
    /// The operator exited before it was ready.
    #[error("the operator exited before it was ready")]
    EndedEarly,
    /// The operator panicked, which is a bug in the framework.
    #[error("the operator panicked")]
    Crashed(#[source] JoinError),
}
