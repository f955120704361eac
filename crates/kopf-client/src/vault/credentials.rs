//! Results of a login: credentials that are not connected yet.

use std::fmt;

use bytes::Bytes;
use http::{Request, Response};
use jiff::Timestamp;
use kube::client::Body as RequestBody;
use tower::{BoxError, Service};

use crate::connection::{self, ConnectionInfo, Error, Options, Target};
use crate::grant::{Grant, Identity};
use crate::transport::Channel;

/// Credentials from a login: [`ConnectionInfo`], those of
/// [kubeconfigs](super::login_with_kubeconfig) and [pods](super::login_with_service_account), or a
/// custom transport.
///
/// ```
/// use kopf_client::connection::ConnectionInfo;
/// use kopf_client::vault::Credentials;
///
/// let mut info = ConnectionInfo::new("https://10.0.0.1:6443");
/// info.token = Some("secret".into());
/// info.priority = 5;
/// let credentials = Credentials::from(info);
/// assert_eq!(credentials.priority(), 5);
/// assert!(!format!("{credentials:?}").contains("secret"));
/// ```
#[derive(Clone)]
pub struct Credentials {
    source: Source,
    priority: i32,
    expiration: Option<Timestamp>,
}

#[derive(Clone)]
enum Source {
    Info(Box<ConnectionInfo>),
    Kubeconfig(Options),
    ServiceAccount(Options),
    Channel(Channel),
}

impl Credentials {
    /// Creates credentials from a custom transport, which authenticates itself.
    pub fn from_service<S, B>(service: S, default_namespace: impl Into<String>) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self {
            source: Source::Channel(Channel::new(service, "", default_namespace.into())),
            priority: 0,
            expiration: None,
        }
    }

    pub(super) fn from_kubeconfig(options: &Options, priority: i32) -> Self {
        Self {
            source: Source::Kubeconfig(options.clone()),
            priority,
            expiration: None,
        }
    }

    pub(super) fn from_service_account(options: &Options, priority: i32) -> Self {
        Self {
            source: Source::ServiceAccount(options.clone()),
            priority,
            expiration: None,
        }
    }

    /// Sets the priority among several credentials: the highest is used.
    #[must_use]
    pub fn with_priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    /// Sets the expiration.
    #[must_use]
    pub fn with_expiration(self, expiration: Timestamp) -> Self {
        Self {
            expiration: Some(expiration),
            ..self
        }
    }

    /// Returns the priority.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Returns the expiration, if there is one.
    pub fn expiration(&self) -> Option<Timestamp> {
        self.expiration
    }

    /// Reads the files of the credentials. Blocks.
    pub(super) fn open(self) -> Result<Opened, Error> {
        let target = match self.source {
            Source::Channel(channel) => {
                return Ok(Opened {
                    identity: Identity::Channel(channel.clone()),
                    source: OpenedSource::Channel(channel),
                });
            }
            Source::Info(info) => info.target()?,
            Source::Kubeconfig(options) => connection::kubeconfig(&options)?,
            Source::ServiceAccount(options) => connection::service_account(&options)?,
        };
        Ok(Opened {
            identity: target
                .fingerprint()
                .map_or(Identity::Unknown, Identity::Known),
            source: OpenedSource::Target(Box::new(target)),
        })
    }
}

impl From<ConnectionInfo> for Credentials {
    fn from(info: ConnectionInfo) -> Self {
        Self {
            priority: info.priority,
            expiration: info.expiration,
            source: Source::Info(Box::new(info)),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Credentials");
        match &self.source {
            Source::Info(info) => debug.field("info", info),
            Source::Kubeconfig(options) => debug.field("kubeconfig", options),
            Source::ServiceAccount(options) => debug.field("service_account", options),
            Source::Channel(channel) => debug.field("channel", channel),
        };
        debug
            .field("priority", &self.priority)
            .field("expiration", &self.expiration)
            .finish()
    }
}

/// Credentials that are read, but not connected.
pub(super) struct Opened {
    pub(super) identity: Identity,
    source: OpenedSource,
}

enum OpenedSource {
    Target(Box<Target>),
    Channel(Channel),
}

impl Opened {
    /// Runs the credential plugin, if there is one. When dropped, it is killed.
    pub(super) async fn prepare(&mut self) -> Result<(), Error> {
        match &mut self.source {
            OpenedSource::Channel(_) => Ok(()),
            OpenedSource::Target(target) => target.prepare().await,
        }
    }

    /// Creates the connection pool. Blocks.
    pub(super) fn connect(self, id: &str) -> Result<Grant, Error> {
        let channel = match self.source {
            OpenedSource::Channel(channel) => channel,
            OpenedSource::Target(target) => target.connect()?,
        };
        Ok(Grant::new(id, channel, self.identity))
    }
}
