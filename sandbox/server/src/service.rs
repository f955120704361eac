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
use kopf_sandbox_api::dispatch::handle;
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
}

impl Service {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster }
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
        Box::pin(async move {
            let response = handle(&cluster, request, true).await;
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
}

impl Endpoint {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster }
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
        Box::pin(async move { Ok(handle(&cluster, request, false).await) })
    }
}
