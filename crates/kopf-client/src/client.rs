//! The way to the server: a transport, and how patient to be with it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kopf_core::settings::Networking;
use kube::client::Body as Outgoing;
use tokio::sync::Semaphore;
use tower::{BoxError, Service, ServiceExt as _};

const AGENT: HeaderValue = HeaderValue::from_static(concat!("kopf/", env!("CARGO_PKG_VERSION")));

/// The body of an answer.
pub(crate) type Incoming = UnsyncBoxBody<Bytes, BoxError>;
pub(crate) type Answer = BoxFuture<'static, Result<Response<Incoming>, BoxError>>;

/// Whatever carries requests to a server. Shared by all clones of a client; concurrent requests do
/// not wait for each other.
pub(crate) trait Transport: Send + Sync {
    fn send(&self, request: Request<Outgoing>) -> Answer;
}

/// A client of one cluster. Cloning is cheap, and clones share their connections.
///
/// Made by one of the functions of [`connection`](crate::connection), or from anything that answers
/// HTTP requests:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use http::{Request, Response};
/// use kube::client::Body;
///
/// let server = tower::service_fn(|request: Request<Body>| async move {
///     let answer = format!(r#"{{"path": "{}"}}"#, request.uri().path());
///     Ok::<_, std::convert::Infallible>(Response::new(Body::from(answer.into_bytes())))
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
    /// Requests in flight, without the watches: those stay.
    room: Semaphore,
}

/// The part that does not depend on settings.
#[derive(Clone)]
struct Route {
    transport: Arc<dyn Transport>,
    /// Where it leads, for messages; empty in process.
    server: Arc<str>,
    default_namespace: Arc<str>,
    /// What makes the waits of this client's streams differ from those of others.
    seed: u64,
    kube: Arc<OnceLock<kube::Client>>,
}

impl Client {
    /// A client of a server in this process, or behind a transport of your own. The service must
    /// bring its own credentials, if it needs any.
    pub fn from_service<S, B>(service: S, default_namespace: impl Into<String>) -> Self
    where
        S: Service<Request<Outgoing>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::new(service, "", default_namespace.into(), 0)
    }

    pub(crate) fn new<S, B>(
        service: S,
        server: &str,
        default_namespace: impl Into<Arc<str>>,
        seed: u64,
    ) -> Self
    where
        S: Service<Request<Outgoing>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let route = Route {
            transport: Arc::new(Carrier(service)),
            server: server.trim_end_matches('/').into(),
            default_namespace: default_namespace.into(),
            seed,
            kube: Arc::default(),
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

    /// The same client with other limits and retries. They are taken over as they are now.
    #[must_use]
    pub fn with_networking(&self, networking: &Networking) -> Self {
        Self::on(self.0.route.clone(), networking.clone())
    }

    /// The namespace that the credentials suggest for what has no namespace.
    pub fn default_namespace(&self) -> Option<&str> {
        Some(&*self.0.route.default_namespace).filter(|name| !name.is_empty())
    }

    /// A client of the kube crate on the same transport and with the same credentials, for handlers.
    /// Neither the retries nor the limits of this client are applied to it.
    ///
    /// The first call must be made in a tokio runtime: kube's client has a task in it.
    pub fn kube(&self) -> kube::Client {
        let route = &self.0.route;
        let made = route.kube.get_or_init(|| {
            let shared = Shared(Arc::clone(&route.transport));
            let namespace = self.default_namespace().unwrap_or("default");
            kube::Client::new(shared, namespace)
        });
        made.clone()
    }

    pub(crate) fn networking(&self) -> &Networking {
        &self.0.networking
    }

    pub(crate) fn room(&self) -> &Semaphore {
        &self.0.room
    }

    pub(crate) fn server(&self) -> &str {
        &self.0.route.server
    }

    pub(crate) fn seed(&self) -> u64 {
        self.0.route.seed
    }

    pub(crate) fn send(&self, request: Request<Outgoing>) -> Answer {
        self.0.route.transport.send(request)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.0.route.server)
            .field("default_namespace", &self.0.route.default_namespace)
            .finish_non_exhaustive()
    }
}

/// Any service as a transport. Each request has its own clone of the service, so that there is no
/// queue to pass through as in kube's client.
struct Carrier<S>(S);

impl<S, B> Transport for Carrier<S>
where
    S: Service<Request<Outgoing>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn send(&self, mut request: Request<Outgoing>) -> Answer {
        request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
        let service = self.0.clone();
        Box::pin(async move {
            let answer = service.oneshot(request).await.map_err(Into::into)?;
            Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }
}

/// The transport as kube's client wants it.
struct Shared(Arc<dyn Transport>);

impl Service<Request<Outgoing>> for Shared {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Outgoing>) -> Answer {
        self.0.send(request)
    }
}
