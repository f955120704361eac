//! The seam between operators and webhook servers (or tunnels): neither knows the other.
//!
//! A server takes requests from wherever they come, and has them reviewed by the operator; it says
//! where it can be reached, as often as that changes, and the operator tells the API server.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use super::ClientConfig;

/// One request to a webhook server.
#[derive(Clone, Default, PartialEq)]
pub struct Incoming {
    /// The body: an `AdmissionReview`, best read by [`parse`](super::parse).
    pub review: Value,
    /// Id of the handler to call, from the path. `None` or an empty string calls all handlers that
    /// match the review.
    pub webhook: Option<String>,
    /// The headers of the request, with the names as they are usually written (`User-Agent`).
    pub headers: BTreeMap<String, String>,
    /// Verified certificate of the client, in the form of Python's `getpeercert()`. `None` if the
    /// client has shown none.
    pub sslpeer: Option<Value>,
}

// Without objects and credentials, which do not belong into logs.
impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("webhook", &self.webhook)
            .field("uid", &self.review["request"]["uid"])
            .finish_non_exhaustive()
    }
}

/// Why a request cannot be reviewed at all. (What handlers deny is an answer, not a refusal.)
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Several kinds are meant.
    #[error("the resource is ambiguous: {0}")]
    Ambiguous(String),
    /// No resource that the operator has admission handlers for.
    #[error("the resource is unknown: {0}")]
    Unknown(String),
    /// The path names a handler that the operator does not have.
    #[error("there is no admission handler {0:?}: the end of the path must be the id of a handler")]
    UnknownHandler(String),
    /// The review lacks what it must have, or is no review.
    #[error("the review lacks data: {0}")]
    Missing(String),
    /// The operator is to blame, such as when it ends.
    #[error("{0}")]
    Internal(String),
}

impl Refusal {
    /// The status code over HTTP.
    pub fn code(&self) -> u16 {
        match self {
            Self::Ambiguous(_) => 409,
            Self::Unknown(_) | Self::UnknownHandler(_) => 404,
            Self::Missing(_) => 400,
            Self::Internal(_) => 500,
        }
    }
}

/// Why a server cannot serve.
pub type ServerError = Box<dyn std::error::Error + Send + Sync>;

type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The operator, as its webhook server sees it.
pub trait Serving: Send + Sync {
    /// Has a request reviewed; gives the `AdmissionReview` with the response.
    fn review(&self, incoming: Incoming) -> Later<'_, Result<Value, Refusal>>;

    /// Tells where the server can be reached from now on.
    fn announce(&self, config: ClientConfig);

    /// The certificate that the API server shows (DER), for those who guess what cluster it is.
    fn api_certificate(&self) -> Later<'_, Option<Vec<u8>>>;

    /// What the API server says of its version (`GET /version`).
    fn api_version(&self) -> Later<'_, Option<Value>>;
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
    ) -> Later<'static, Result<(), ServerError>>;
}
