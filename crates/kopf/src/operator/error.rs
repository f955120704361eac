//! Errors of building and running operators.

use kopf_core::{namespace, settings};
use tokio::task::JoinError;

use crate::definitions::DefinitionError;

/// A mistake in the configuration of an operator, found when it is built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
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
    /// The address for metrics is invalid.
    #[error("cannot serve metrics: {0}")]
    Metrics(kopf_engine::probing::EndpointError),
    /// The types of a resource cannot be merged into a CRD.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A webhook server has nothing to serve.
    #[error(
        "webhooks are configured, but there are no handlers of on::validate, on::mutate or \
         on::convert"
    )]
    Webhooks,
    /// The settings are invalid.
    #[error("invalid settings")]
    Settings(#[from] settings::Errors),
}

/// An error of a running operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The operator failed.
    #[error(transparent)]
    Engine(#[from] kopf_engine::operator::Error),
    /// The operator exited before it was ready.
    #[error("the operator exited before it was ready")]
    EndedEarly,
    /// The operator panicked, which is a bug in the framework.
    #[error("the operator panicked")]
    Crashed(#[source] JoinError),
}
