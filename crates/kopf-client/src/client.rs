//! The client: a transport, with limits and retries.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use kopf_core::settings::Networking;
use kube::client::Body as RequestBody;
use tokio::sync::Semaphore;
use tower::{BoxError, Service};
use tracing::warn;

use crate::error::Error;
use crate::grant::{Grant, GrantSource};
use crate::observing::{RequestObserver, RequestSeries, RequestTarget, observed};
use crate::transport::{Channel, ResponseBody, ResponseFuture};

/// A client of one cluster. Cloning is cheap, and clones share their connections.
///
/// Created by one of the functions of [`connection`](crate::connection), from a
/// [`vault`](crate::vault) of changing credentials, or from any HTTP service:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use http::{Request, Response};
/// use kube::client::Body;
///
/// let server = tower::service_fn(|request: Request<Body>| async move {
///     let body = format!(r#"{{"path": "{}"}}"#, request.uri().path());
///     Ok::<_, std::convert::Infallible>(Response::new(Body::from(body.into_bytes())))
/// });
/// let client = kopf_client::Client::from_service(server, "default");
/// assert_eq!(client.get_json("/version").await?["path"], "/version");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    route: Route,
    networking: Networking,
    /// Permits of concurrent requests. Watches do not need them.
    room: Semaphore,
}

/// The part that does not depend on settings.
#[derive(Clone)]
struct Route {
    source: ChannelSource,
    /// A seed for jitter, so that the delays of clients differ.
    seed: u64,
    kube: Arc<OnceLock<kube::Client>>,
    observer: Option<Arc<dyn RequestObserver>>,
    /// `true` if a delay of the server that is too long was logged.
    has_cut_delay: Arc<AtomicBool>,
}

/// The transport of requests.
#[derive(Clone)]
enum ChannelSource {
    /// A fixed transport.
    Fixed(Channel),
    /// A transport with the current credentials.
    Grants(Arc<dyn GrantSource>),
}

impl Client {
    /// Creates a client of an in-process server, or of a custom transport. The service must add its
    /// own credentials, if it needs any.
    pub fn from_service<S, B>(service: S, default_namespace: impl Into<String>) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::from_channel(Channel::new(service, "", default_namespace.into()), 0)
    }

    pub(crate) fn from_channel(channel: Channel, seed: u64) -> Self {
        Self::by(ChannelSource::Fixed(channel), seed)
    }

    pub(crate) fn from_source(source: Arc<dyn GrantSource>, seed: u64) -> Self {
        Self::by(ChannelSource::Grants(source), seed)
    }

    fn by(source: ChannelSource, seed: u64) -> Self {
        let route = Route {
            source,
            seed,
            kube: Arc::default(),
            observer: None,
            has_cut_delay: Arc::default(),
        };
        Self::on(route, Networking::default())
    }

    fn on(route: Route, networking: Networking) -> Self {
        let room = Semaphore::new(networking.concurrency.clamp(1, Semaphore::MAX_PERMITS));
        Self(Arc::new(Inner {
            route,
            networking,
            room,
        }))
    }

    /// Returns the same client with other limits and retries. Later changes of the settings have no
    /// effect.
    #[must_use]
    pub fn with_networking(&self, networking: &Networking) -> Self {
        Self::on(self.0.route.clone(), networking.clone())
    }

    /// Returns the same client with all its requests reported to the observer, those of its
    /// [`kube`](Self::kube) client included.
    #[must_use]
    pub fn with_observer(&self, observer: Arc<dyn RequestObserver>) -> Self {
        let route = Route {
            observer: Some(observer),
            kube: Arc::default(),
            ..self.0.route.clone()
        };
        Self::on(route, self.0.networking.clone())
    }

    /// Returns the delay before a retry that the server requests. Logs once that longer delays are cut.
    pub(crate) fn retry_after(&self, error: &Error) -> Option<Duration> {
        let obeyed = error.retry_after()?;
        let asked = error.status().and_then(|status| status.retry_after);
        if let Some(asked) = asked
            && asked > obeyed
            && !self.0.route.has_cut_delay.swap(true, Ordering::Relaxed)
        {
            warn!(
                "The API server requests a delay of {} seconds before a retry. Delays are cut to {} \
                 seconds.",
                asked.as_secs(),
                obeyed.as_secs()
            );
        }
        Some(obeyed)
    }

    /// Returns `true` if requests can be sent without waiting for a login.
    pub fn has_credentials(&self) -> bool {
        self.0.route.source.channel().is_some()
    }

    /// Returns the namespace of the credentials, for requests without a namespace.
    pub fn default_namespace(&self) -> Option<Arc<str>> {
        self.0.route.source.channel()?.default_namespace().cloned()
    }

    /// Waits for credentials, and returns their namespace; `None` if they have none.
    pub async fn suggested_namespace(&self) -> Result<Option<Arc<str>>, Error> {
        drop(self.request_channel().await?);
        Ok(self.default_namespace())
    }

    /// Returns a client of the kube crate on the same transport and with the same credentials, for
    /// handlers. The retries and limits of this client do not apply to it; new credentials of a
    /// [`vault`](crate::vault) do.
    ///
    /// The first call must be made in a tokio runtime: kube's client spawns a task.
    pub fn kube(&self) -> kube::Client {
        let route = &self.0.route;
        let make = |channel: Option<&Channel>| {
            let namespace = channel.and_then(Channel::default_namespace);
            let namespace = namespace.map_or("default", |namespace| &**namespace);
            let service = KubeService {
                source: route.source.clone(),
                observer: route.observer.clone(),
            };
            kube::Client::new(service, namespace)
        };
        match (route.kube.get(), route.source.channel()) {
            (Some(made), _) => made.clone(),
            // Before the first login, the namespace is unknown and must not be cached.
            (None, None) => make(None),
            (None, channel) => route.kube.get_or_init(|| make(channel.as_ref())).clone(),
        }
    }

    pub(crate) fn networking(&self) -> &Networking {
        &self.0.networking
    }

    pub(crate) fn room(&self) -> &Semaphore {
        &self.0.room
    }

    /// Returns the address of the server, for messages; empty if it is in process, or not known
    /// yet.
    pub(crate) fn server(&self) -> Arc<str> {
        let channel = self.0.route.source.channel();
        channel.map_or_else(|| Arc::from(""), |channel| Arc::clone(channel.server()))
    }

    /// Returns the receiver of the end of a request, if there is an observer.
    pub(crate) fn series(&self, method: &Method, path: &str) -> Option<Arc<dyn RequestSeries>> {
        let observer = self.0.route.observer.as_ref()?;
        Some(observer.begin(RequestTarget::parse(method, path)))
    }

    pub(crate) fn seed(&self) -> u64 {
        self.0.route.seed
    }

    /// Returns the transport for one request. With a vault, waits for credentials.
    pub(crate) async fn request_channel(&self) -> Result<RequestChannel<'_>, Error> {
        match &self.0.route.source {
            ChannelSource::Fixed(channel) => Ok(RequestChannel::Fixed(channel)),
            ChannelSource::Grants(source) => {
                let picked = match source.try_pick() {
                    Some(picked) => picked,
                    None => source.pick().await,
                };
                Ok(RequestChannel::Granted(&**source, picked?))
            }
        }
    }
}

impl ChannelSource {
    fn channel(&self) -> Option<Channel> {
        match self {
            Self::Fixed(channel) => Some(channel.clone()),
            Self::Grants(source) => source.peek().map(|grant| grant.channel().clone()),
        }
    }
}

/// The transport of one request.
pub(crate) enum RequestChannel<'a> {
    Fixed(&'a Channel),
    Granted(&'a dyn GrantSource, Arc<Grant>),
}

impl RequestChannel<'_> {
    pub(crate) fn send(&self, request: Request<RequestBody>) -> ResponseFuture {
        match self {
            Self::Fixed(channel) => channel.send(request),
            Self::Granted(_, grant) => grant.channel().send(request),
        }
    }

    /// Updates the state of the credentials by a result. Returns `true` if the request should be
    /// repeated with other credentials.
    pub(crate) fn is_closed_by<T>(&self, result: &Result<T, Error>) -> bool {
        let Self::Granted(source, grant) = self else {
            return false;
        };
        match result {
            Err(error) if error.is_unauthorized() => {
                source.invalidate(grant);
                true
            }
            // Other credentials help only after the files are read again, which the caller decides.
            Err(error @ Error::Untrusted { .. }) => {
                source.distrust(grant, error);
                false
            }
            Ok(_) | Err(Error::Status(_)) => {
                grant.note_success();
                false
            }
            Err(_) => false,
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.server())
            .field("default_namespace", &self.default_namespace())
            .finish_non_exhaustive()
    }
}

/// The transport as a service for kube's client.
struct KubeService {
    source: ChannelSource,
    observer: Option<Arc<dyn RequestObserver>>,
}

impl Service<Request<RequestBody>> for KubeService {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> ResponseFuture {
        let series = self.observer.as_ref().map(|observer| {
            let path = request.uri().path_and_query();
            let path = path.map_or("", |path| path.as_str());
            observer.begin(RequestTarget::parse(request.method(), path))
        });
        let response = match &self.source {
            ChannelSource::Fixed(channel) => channel.send(request),
            ChannelSource::Grants(source) => source.carry(request),
        };
        match series {
            Some(series) => Box::pin(observed(series, response)),
            None => response,
        }
    }
}
