//! Transports of requests: any HTTP service, with its address.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body as RequestBody;
use tower::{BoxError, Service, ServiceExt as _};

const AGENT: HeaderValue = HeaderValue::from_static(concat!("kopf/", env!("CARGO_PKG_VERSION")));

/// The body of a response.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;
pub(crate) type ResponseFuture = BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;

/// A transport of requests to a server. Shared by all clones of a client; concurrent requests do
/// not wait for each other.
trait Transport: Send + Sync {
    fn send(&self, request: Request<RequestBody>) -> ResponseFuture;
}

/// A transport with its credentials and address. Cheap to clone; its connections are closed with
/// the last clone.
#[derive(Clone)]
pub(crate) struct Channel {
    transport: Arc<dyn Transport>,
    /// The address for messages; empty in process.
    server: Arc<str>,
    default_namespace: Arc<str>,
}

impl Channel {
    pub(crate) fn new<S, B>(
        service: S,
        server: &str,
        default_namespace: impl Into<Arc<str>>,
    ) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self {
            transport: Arc::new(ServiceTransport(service)),
            server: server.trim_end_matches('/').into(),
            default_namespace: default_namespace.into(),
        }
    }

    pub(crate) fn send(&self, request: Request<RequestBody>) -> ResponseFuture {
        self.transport.send(request)
    }

    pub(crate) fn server(&self) -> &Arc<str> {
        &self.server
    }

    pub(crate) fn default_namespace(&self) -> Option<&Arc<str>> {
        Some(&self.default_namespace).filter(|name| !name.is_empty())
    }

    /// Returns `true` if it is the same transport.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.transport, &other.transport)
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("server", &self.server)
            .field("default_namespace", &self.default_namespace)
            .finish_non_exhaustive()
    }
}

/// A service as a transport. Each request has its own clone of the service, so that there is no
/// queue as in kube's client.
struct ServiceTransport<S>(S);

impl<S, B> Transport for ServiceTransport<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn send(&self, mut request: Request<RequestBody>) -> ResponseFuture {
        request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
        let service = self.0.clone();
        Box::pin(async move {
            let response = service.oneshot(request).await.map_err(Into::into)?;
            Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }
}
