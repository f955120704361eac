//! Interface between operators and webhook servers or tunnels.
//!
//! A server accepts requests and passes them to the operator. It announces its address, again whenever
//! that changes, and the operator writes it to the webhook configurations.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use super::{CertificateStore, ClientConfig};
use crate::key_order::KeyOrder;

/// A request to a webhook server.
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Incoming {
    /// The body: an `AdmissionReview`, parsed by [`parse`](super::parse).
    pub review: Value,
    /// Order of the keys of the body, if it was [asked for](Serving::keeps_key_order).
    pub order: Option<Arc<KeyOrder>>,
    /// Id of the handler to call, from the path. `None` or an empty string calls all handlers that
    /// match the review.
    pub webhook: Option<String>,
    /// Headers of the request, with names in canonical form (`User-Agent`).
    pub headers: BTreeMap<String, String>,
    /// Verified certificate of the client, in the form of Python's `getpeercert()`. `None` if the
    /// client has shown none.
    pub sslpeer: Option<Value>,
}

impl Incoming {
    /// Returns a request with this body, and without a handler id, headers and a certificate.
    ///
    /// ```
    /// use kopf_core::admission::Incoming;
    /// use serde_json::json;
    ///
    /// let mut incoming = Incoming::new(json!({"request": {"uid": "u-1"}}));
    /// incoming.webhook = Some("check".to_owned());
    /// assert!(incoming.headers.is_empty());
    /// ```
    pub fn new(review: Value) -> Self {
        Self {
            review,
            ..Self::default()
        }
    }
}

// Without objects and credentials, which do not belong in logs.
impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("webhook", &self.webhook)
            .field("uid", &self.review["request"]["uid"])
            .finish_non_exhaustive()
    }
}

/// Error for a request that cannot be reviewed. Denials of handlers are responses, not errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Several resources match.
    #[error("the resource is ambiguous: {0}")]
    Ambiguous(String),
    /// No resource that the operator has admission handlers for.
    #[error("the resource is unknown: {0}")]
    Unknown(String),
    /// The path names a handler that the operator does not have.
    #[error("there is no admission handler {0:?}: the end of the path must be the id of a handler")]
    UnknownHandler(String),
    /// A required field is missing or has another type.
    #[error("the review lacks data: {0}")]
    Missing(String),
    /// The operator has failed.
    #[error("{0}")]
    Internal(String),
}

impl Refusal {
    /// Returns the HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::Ambiguous(_) => 409,
            Self::Unknown(_) | Self::UnknownHandler(_) => 404,
            Self::Missing(_) => 400,
            Self::Internal(_) => 500,
        }
    }
}

/// Error of a webhook server.
pub type ServerError = Box<dyn std::error::Error + Send + Sync>;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The operator as seen by its webhook server.
pub trait Serving: Send + Sync {
    /// Reviews a request. Returns the `AdmissionReview` with the response.
    fn review(&self, incoming: Incoming) -> BoxFuture<'_, Result<Value, Refusal>>;

    /// Announces the address of the server, which replaces earlier ones.
    fn announce(&self, config: ClientConfig);

    /// Returns the certificate of the API server in DER, for the detection of local clusters.
    fn api_certificate(&self) -> BoxFuture<'_, Option<Vec<u8>>>;

    /// Returns the version of the API server (`GET /version`).
    fn api_version(&self) -> BoxFuture<'_, Option<Value>>;

    /// Returns the namespace of the operator: in a pod, its own; otherwise that of the kubeconfig.
    /// `None` if there is none.
    fn namespace(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { None })
    }

    /// Returns `true` if servers without an address must listen on the loopback interface only
    /// (`settings.admission.loopback`).
    fn is_loopback(&self) -> bool {
        false
    }

    /// Returns `true` if handlers see the order of keys: then bodies are parsed by
    /// [`parse_in_order`](super::parse_in_order).
    fn keeps_key_order(&self) -> bool {
        false
    }

    /// Returns the store of the certificate that the replicas of this operator share. `None` if the
    /// server generates a certificate for itself.
    fn certificate_store(&self) -> Option<Arc<dyn CertificateStore>> {
        None
    }
}

/// Future that resolves when a webhook server has to stop.
pub type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A webhook server, or a tunnel to one.
pub trait WebhookServer: fmt::Debug + Send + Sync {
    /// Announces the address of the server, then has requests reviewed until `shutdown` resolves.
    ///
    /// After that, the server closes its connections and returns `Ok`. The operator waits for 5
    /// seconds before it drops the future. By then the webhooks are removed from managed
    /// configurations, and all reviews have ended. If the future resolves before the shutdown, the
    /// operator ends with an error.
    fn serve(
        self: Arc<Self>,
        operator: Arc<dyn Serving>,
        shutdown: Shutdown,
    ) -> BoxFuture<'static, Result<(), ServerError>>;
}
