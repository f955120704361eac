//! The way to the server: a transport, and how patient to be with it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response};
use kopf_core::settings::Networking;
use kube::client::Body as Outgoing;
use tokio::sync::Semaphore;
use tower::{BoxError, Service};

use crate::error::Error;
use crate::grant::{Grant, GrantSource};
use crate::observing::{RequestObserver, RequestSeries, RequestTarget, observed};
use crate::transport::{Answer, Incoming, Lane};

/// A client of one cluster. Cloning is cheap, and clones share their connections.
///
/// Made by one of the functions of [`connection`](crate::connection), from a
/// [`vault`](crate::vault) of changing credentials, or from anything that answers HTTP requests:
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
    way: Way,
    /// What makes the waits of this client's streams differ from those of others.
    seed: u64,
    kube: Arc<OnceLock<kube::Client>>,
    observer: Option<Arc<dyn RequestObserver>>,
}

/// Where requests go.
#[derive(Clone)]
enum Way {
    /// Always the same way.
    Fixed(Lane),
    /// With the credentials of the moment.
    Source(Arc<dyn GrantSource>),
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
        Self::from_lane(Lane::new(service, "", default_namespace.into()), 0)
    }

    pub(crate) fn from_lane(lane: Lane, seed: u64) -> Self {
        Self::by(Way::Fixed(lane), seed)
    }

    pub(crate) fn from_source(source: Arc<dyn GrantSource>, seed: u64) -> Self {
        Self::by(Way::Source(source), seed)
    }

    fn by(way: Way, seed: u64) -> Self {
        let route = Route {
            way,
            seed,
            kube: Arc::default(),
            observer: None,
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

    /// Returns `true` if requests can be sent without waiting for a login.
    pub fn has_credentials(&self) -> bool {
        self.0.route.way.lane().is_some()
    }

    /// The namespace that the credentials suggest for what has no namespace.
    pub fn default_namespace(&self) -> Option<Arc<str>> {
        self.0.route.way.lane()?.default_namespace().cloned()
    }

    /// Waits for credentials, and returns the namespace that they suggest; `None` if they suggest none.
    pub async fn suggested_namespace(&self) -> Result<Option<Arc<str>>, Error> {
        drop(self.passage().await?);
        Ok(self.default_namespace())
    }

    /// A client of the kube crate on the same transport and with the same credentials, for handlers.
    /// Neither the retries nor the limits of this client are applied to it; but when the credentials
    /// of a [`vault`](crate::vault) change, it goes on with the new ones, too.
    ///
    /// The first call must be made in a tokio runtime: kube's client has a task in it.
    pub fn kube(&self) -> kube::Client {
        let route = &self.0.route;
        let make = |lane: Option<&Lane>| {
            let namespace = lane.and_then(Lane::default_namespace);
            let namespace = namespace.map_or("default", |namespace| &**namespace);
            let shared = Shared {
                way: route.way.clone(),
                observer: route.observer.clone(),
            };
            kube::Client::new(shared, namespace)
        };
        match (route.kube.get(), route.way.lane()) {
            (Some(made), _) => made.clone(),
            // Before the first login, the namespace is not known yet: that is not to stay.
            (None, None) => make(None),
            (None, lane) => route.kube.get_or_init(|| make(lane.as_ref())).clone(),
        }
    }

    pub(crate) fn networking(&self) -> &Networking {
        &self.0.networking
    }

    pub(crate) fn room(&self) -> &Semaphore {
        &self.0.room
    }

    /// Where it leads now, for messages; empty if it is in process, or not known yet.
    pub(crate) fn server(&self) -> Arc<str> {
        let lane = self.0.route.way.lane();
        lane.map_or_else(|| Arc::from(""), |lane| Arc::clone(lane.server()))
    }

    /// Returns the receiver of the end of a request, if there is an observer.
    pub(crate) fn series(&self, method: &Method, path: &str) -> Option<Arc<dyn RequestSeries>> {
        let observer = self.0.route.observer.as_ref()?;
        Some(observer.begin(RequestTarget::parse(method, path)))
    }

    pub(crate) fn seed(&self) -> u64 {
        self.0.route.seed
    }

    /// The way for one request. With a vault, it is waited for the credentials.
    pub(crate) async fn passage(&self) -> Result<Passage<'_>, Error> {
        match &self.0.route.way {
            Way::Fixed(lane) => Ok(Passage::Fixed(lane)),
            Way::Source(source) => {
                let picked = match source.try_pick() {
                    Some(picked) => picked,
                    None => source.pick().await,
                };
                Ok(Passage::Granted(&**source, picked?))
            }
        }
    }
}

impl Way {
    fn lane(&self) -> Option<Lane> {
        match self {
            Self::Fixed(lane) => Some(lane.clone()),
            Self::Source(source) => source.peek().map(|grant| grant.lane().clone()),
        }
    }
}

/// The way that one request takes.
pub(crate) enum Passage<'a> {
    Fixed(&'a Lane),
    Granted(&'a dyn GrantSource, Arc<Grant>),
}

impl Passage<'_> {
    pub(crate) fn send(&self, request: Request<Outgoing>) -> Answer {
        match self {
            Self::Fixed(lane) => lane.send(request),
            Self::Granted(_, grant) => grant.lane().send(request),
        }
    }

    /// Takes notice of how the credentials are received. True if it is worth to ask again, with
    /// others.
    pub(crate) fn is_closed_by<T>(&self, result: &Result<T, Error>) -> bool {
        let Self::Granted(source, grant) = self else {
            return false;
        };
        match result {
            Err(error) if error.is_unauthorized() => {
                source.invalidate(grant);
                true
            }
            // Others are only worth a try when the files are read again: whoever asks decides.
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

/// The transport as kube's client wants it.
struct Shared {
    way: Way,
    observer: Option<Arc<dyn RequestObserver>>,
}

impl Service<Request<Outgoing>> for Shared {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Outgoing>) -> Answer {
        let series = self.observer.as_ref().map(|observer| {
            let path = request.uri().path_and_query();
            let path = path.map_or("", |path| path.as_str());
            observer.begin(RequestTarget::parse(request.method(), path))
        });
        let answer = match &self.way {
            Way::Fixed(lane) => lane.send(request),
            Way::Source(source) => source.carry(request),
        };
        match series {
            Some(series) => Box::pin(observed(series, answer)),
            None => answer,
        }
    }
}
