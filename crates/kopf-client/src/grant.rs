//! Credentials in use, and the interface between clients and the source of credentials.
//!
//! Clients depend on this interface only. The vault implements it, and depends on clients.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use http::Request;
use kube::client::Body as RequestBody;
use tokio::time::Instant;

use crate::error::LoginError;
use crate::transport::{Channel, ResponseFuture};

/// The identity of credentials, to recognise rejected ones when they are retrieved again.
#[derive(Clone)]
pub(crate) enum Identity {
    /// All sent and trusted data, as text. Contains secrets.
    Known(String),
    /// A transport supplied by the caller.
    Channel(Channel),
    /// Not known in advance: a credential plugin decides at each run.
    Unknown,
}

impl Identity {
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known(this), Self::Known(other)) => this == other,
            (Self::Channel(this), Self::Channel(other)) => this.is(other),
            _ => false,
        }
    }
}

/// Credentials in use, with their connections.
pub(crate) struct Grant {
    /// The id of the login handler.
    pub(crate) id: Arc<str>,
    pub(crate) identity: Identity,
    pub(crate) priority: i32,
    /// The expiration.
    pub(crate) until: Option<Instant>,
    channel: Channel,
    has_worked: AtomicBool,
}

impl Grant {
    /// Creates a grant of priority 0 without expiration.
    pub(crate) fn new(id: &str, channel: Channel, identity: Identity) -> Self {
        Self {
            id: id.into(),
            identity,
            priority: 0,
            until: None,
            channel,
            has_worked: AtomicBool::new(false),
        }
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Records that the server accepted the credentials, whatever the response to the request.
    pub(crate) fn note_success(&self) {
        // Reading is cheaper than writing, and this is done for every response.
        if !self.has_worked() {
            self.has_worked.store(true, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the server has accepted the credentials before.
    pub(crate) fn has_worked(&self) -> bool {
        self.has_worked.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("id", &self.id)
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

/// A source of credentials that change over time.
pub(crate) trait GrantSource: Send + Sync {
    /// Returns the credentials for one request, or `None` if the caller has to
    /// [wait](Self::pick) for a login.
    fn try_pick(&self) -> Option<Result<Arc<Grant>, LoginError>>;

    /// Waits for the credentials for one request.
    fn pick(&self) -> BoxFuture<'_, Result<Arc<Grant>, LoginError>>;

    /// Returns the current credentials, if there are any.
    fn peek(&self) -> Option<Arc<Grant>>;

    /// Removes credentials that the server rejected with 401.
    fn invalidate(&self, rejected: &Arc<Grant>);

    /// Removes credentials with which TLS verification fails.
    fn distrust(&self, grant: &Arc<Grant>, error: &dyn fmt::Display);

    /// Sends a request of kube's client, again after each rejection of the credentials.
    fn carry(&self, request: Request<RequestBody>) -> ResponseFuture;
}
