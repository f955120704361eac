//! Why an operator cannot be built, or cannot run.

use kopf_core::{namespace, settings};
use tokio::task::JoinError;

/// Why an operator cannot be built, or cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A handler is declared wrongly.
    #[error("handler {handler:?} is declared wrongly: {message}")]
    Handler {
        /// The id, or the name of the function.
        handler: String,
        /// What is wrong.
        message: String,
    },
    /// A pattern of namespaces is none.
    #[error("the namespaces {pattern:?} cannot be served")]
    Namespaces {
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: namespace::Error,
    },
    /// The address for probes is invalid.
    #[error("probes cannot be answered: {0}")]
    Liveness(kopf_engine::probing::EndpointError),
    /// The types of a resource do not make a CRD.
    #[error("cannot make the CRD {name}: {message}")]
    Definition {
        /// The name of the CRD.
        name: String,
        /// The reason.
        message: String,
    },
    /// The address for metrics is invalid.
    #[error("metrics cannot be served: {0}")]
    Metrics(kopf_engine::probing::EndpointError),
    /// The settings contradict each other.
    #[error("the settings are wrong")]
    Settings(#[from] settings::Errors),
    /// It ran, but could not go on.
    #[error(transparent)]
    Engine(#[from] kopf_engine::operator::Error),
    /// It was over before it was ready.
    #[error("the operator has ended before it was ready")]
    EndedEarly,
    /// It has crashed: a mistake in the framework.
    #[error("the operator has crashed")]
    Crashed(#[source] JoinError),
}
