//! Why an operator ends by itself.

use kopf_core::handler::HandlerId;
use tokio::task::JoinError;

use crate::activities;
use crate::admission;
use crate::authentication::LoginError;
use crate::definitions;
use crate::leading;
use crate::probing::Endpoint;

/// Why an operator has ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The front cannot declare its handlers after the startup.
    #[error("cannot declare the handlers after the startup")]
    Declaration(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A front has declared a handler of an index, and not given the index.
    #[error("there is nothing to keep the entries of the index '{id}' in")]
    NoIndex {
        /// The id of the handler.
        id: HandlerId,
    },
    /// The settings make no sense.
    #[error("the operator cannot run with these settings")]
    Settings(#[from] kopf_core::settings::Errors),
    /// The progress of a handler could never be stored.
    #[error("a handler cannot be registered")]
    Handler(#[source] kopf_core::storage::StorageError),
    /// Handlers of the operator's own life have failed for good.
    #[error(transparent)]
    Activity(#[from] activities::Error),
    /// There are no credentials for the API, and there will not be any.
    #[error("the operator cannot log in")]
    Login(#[source] LoginError),
    /// The server does not tell what kinds it has.
    #[error("the resources of the cluster cannot be discovered")]
    Discovery(#[source] Box<kopf_client::Error>),
    /// A CRD cannot be installed.
    #[error(transparent)]
    Definition(#[from] definitions::Error),
    /// The address for probes cannot be listened at.
    #[error("probes cannot be answered at {endpoint}")]
    Probing {
        /// The address.
        endpoint: Endpoint,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The address for metrics cannot be listened at.
    #[error("metrics cannot be served at {endpoint}")]
    Metrics {
        /// The address.
        endpoint: Endpoint,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// Probes and metrics have the same URL.
    #[error("probes and metrics cannot be served at the same URL {endpoint}: use different paths")]
    SameEndpoint {
        /// The address.
        endpoint: Endpoint,
    },
    /// There can be no webhooks.
    #[error(transparent)]
    Admission(#[from] admission::Error),
    /// The replicas of the operator cannot agree.
    #[error("the replicas of the operator cannot agree on which of them handles objects")]
    Leading(#[from] leading::Error),
    /// A stream has ended without being stopped.
    #[error("streaming has failed")]
    Streaming(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A task has ended without being stopped.
    #[error("{task} has finished unexpectedly")]
    Finished {
        /// The name of the task.
        task: &'static str,
    },
    /// A task has panicked.
    #[error("{task} has crashed")]
    Crashed {
        /// The name of the task.
        task: &'static str,
        /// What is known of it.
        #[source]
        source: JoinError,
    },
}
