//! The whole API as a service.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use kopf_sandbox_api::body::{Body, BodyError};
use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::dispatch::{Entrance, handle};
use kopf_sandbox_api::fault::{ConnectionBroken, ConnectionFault};

type ResponseFuture<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

/// The API of a sandbox, in process: no socket, no TLS. Requests without credentials are those of
/// the administrator.
///
/// It is cheap to clone, and any HTTP client over a [`tower::Service`] can use it:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tower::ServiceExt as _;
///
/// let sandbox = kopf_sandbox::Sandbox::builder().build()?;
/// let request = http::Request::get("/api/v1/namespaces/default").body(String::new())?;
/// let response = sandbox.service().oneshot(request).await?;
/// assert_eq!(response.status(), 200);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Service {
    cluster: Arc<Cluster>,
    entrance: Entrance,
}

impl Service {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        let entrance = Entrance {
            endpoint: Arc::from("in-process"),
            in_process: true,
        };
        Self { cluster, entrance }
    }

    /// Returns the same service as another endpoint, by which a [tap](crate::tap) and
    /// [views](crate::view) distinguish clients. The default is `in-process`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sandbox = kopf_sandbox::Sandbox::builder().build()?;
    /// let operator = sandbox.service().endpoint("operator");
    /// # let _ = operator;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn endpoint(mut self, name: &str) -> Self {
        self.entrance.endpoint = Arc::from(name);
        self
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    type Response = Response<Body>;
    type Error = ConnectionBroken;
    type Future = ResponseFuture<ConnectionBroken>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionBroken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let cluster = Arc::clone(&self.cluster);
        let entrance = self.entrance.clone();
        Box::pin(async move {
            let response = handle(&cluster, request, &entrance).await;
            match ConnectionFault::of(&response) {
                Some(fault) => fault.act_in_process().await,
                None => Ok(response),
            }
        })
    }
}

/// The same API for a listener: credentials are required.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    cluster: Arc<Cluster>,
    entrance: Entrance,
}

impl Endpoint {
    pub(crate) fn new(cluster: Arc<Cluster>, name: &str) -> Self {
        let entrance = Entrance {
            endpoint: Arc::from(name),
            in_process: false,
        };
        Self { cluster, entrance }
    }
}

impl<B> tower::Service<Request<B>> for Endpoint
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let cluster = Arc::clone(&self.cluster);
        let entrance = self.entrance.clone();
        Box::pin(async move { Ok(handle(&cluster, request, &entrance).await) })
    }
}
