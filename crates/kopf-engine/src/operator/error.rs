//! Errors that end an operator.

use kopf_core::handler::HandlerId;
use tokio::task::JoinError;

use crate::activities;
use crate::admission;
use crate::authentication::LoginError;
use crate::definitions;
use crate::leading;
use crate::probing::Endpoint;

/// An error that ends an operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The frontend failed to declare its handlers after the startup.
    #[error("cannot declare the handlers after the startup")]
    Declaration(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The frontend has declared an index handler without an index.
    #[error("index '{id}' has no storage")]
    NoIndex {
        /// The id of the handler.
        id: HandlerId,
    },
    /// A reconcile handler and another handler would overwrite the records of each other.
    #[error(
        "handler {id:?} is both a reconcile handler and another handler of changes, and their retries are \
         recorded by the id: give one of them another id"
    )]
    SharedId {
        /// The id of the handlers.
        id: HandlerId,
    },
    /// The settings are invalid.
    #[error("invalid settings")]
    Settings(#[from] kopf_core::settings::Errors),
    /// The progress of a handler cannot be stored.
    #[error("cannot register a handler")]
    Handler(#[source] kopf_core::storage::StorageError),
    /// A startup, cleanup or other activity handler has failed permanently.
    #[error(transparent)]
    Activity(#[from] activities::Error),
    /// The login has failed permanently.
    #[error("the operator cannot log in")]
    Login(#[source] LoginError),
    /// The discovery of resources has failed.
    #[error("cannot discover the resources of the cluster")]
    Discovery(#[source] Box<kopf_client::Error>),
    /// A CRD cannot be installed.
    #[error(transparent)]
    Definition(#[from] definitions::Error),
    /// Listening at the address for probes has failed.
    #[error("cannot serve probes at {endpoint}")]
    Probing {
        /// The address.
        endpoint: Endpoint,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// Listening at the address for metrics has failed.
    #[error("cannot serve metrics at {endpoint}")]
    Metrics {
        /// The address.
        endpoint: Endpoint,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// Probes and metrics have the same URL.
    #[error("cannot serve probes and metrics at the same URL {endpoint}: use different paths")]
    SameEndpoint {
        /// The address.
        endpoint: Endpoint,
    },
    /// The webhooks cannot be served.
    #[error(transparent)]
    Admission(#[from] admission::Error),
    /// The coordination with other replicas has failed.
    #[error("cannot coordinate with other replicas")]
    Leading(#[from] leading::Error),
    /// A stream has ended without being stopped.
    #[error("a watch stream has failed")]
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
        /// The panic message.
        #[source]
        source: JoinError,
    },
}
