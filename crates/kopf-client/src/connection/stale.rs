//! Used connections that die silently.
//!
//! A gateway can drop a connection without notice, or a machine can vanish. A request on such a
//! connection waits until the request timeout, and so does its object. TCP notices some of these
//! cases, but not a dead server behind a living proxy. A new connection does not have the problem, so
//! giving up a used one costs at most one repeated request.
//!
//! Only patches are given up, because ours can be repeated safely: they either set the same values
//! again, or contain the resource version that they are for.

use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request};
use tokio::time::timeout;
use tower::{BoxError, Service};

use super::limit::{is_newly_connected, is_requested};

/// The limit for patches on used connections. It is longer than connections stay idle in the pool,
/// so that the next attempt gets another one.
pub(super) const STALE: Duration = Duration::from_secs(30);

/// A used connection did not deliver a response in time.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no response within {} seconds on a used connection", after.as_secs_f64())]
pub(crate) struct NoResponse {
    pub(crate) after: Duration,
}

/// A connection pool that gives up used connections without responses.
#[derive(Clone, Debug)]
pub(super) struct StaleGuard<S> {
    pub(super) pool: S,
    pub(super) limit: Duration,
}

impl<S, B> Service<Request<B>> for StaleGuard<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.pool.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Requests of kube's client are not retried.
        let is_repeatable = request.method() == Method::PATCH && is_requested();
        let answering = self.pool.call(request);
        let after = self.limit;
        Box::pin(async move {
            let mut answering = pin!(answering);
            if is_repeatable {
                match timeout(after, &mut answering).await {
                    Ok(response) => return response.map_err(Into::into),
                    Err(_) if is_newly_connected() => {}
                    Err(_) => return Err(NoResponse { after }.into()),
                }
            }
            answering.await.map_err(Into::into)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use http::{Response, StatusCode, Uri};
    use http_body_util::Full;
    use hyper_util::client::legacy;
    use hyper_util::client::legacy::connect::HttpConnector;
    use hyper_util::rt::TokioExecutor;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinSet;
    use tower::ServiceExt as _;

    use super::super::limit::{TimedConnector, with_connect_limit};
    use super::*;

    fn request(method: Method) -> Request<()> {
        let request = Request::builder().method(method).uri("http://x/");
        request.body(()).unwrap()
    }

    /// Returns a pool that responds after a minute.
    fn slow() -> StaleGuard<
        impl Service<Request<()>, Response = Response<()>, Error = Infallible, Future: Send> + Clone,
    > {
        let pool = tower::service_fn(|_: Request<()>| async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok::<_, Infallible>(Response::new(()))
        });
        let limit = STALE;
        StaleGuard { pool, limit }
    }

    #[tokio::test(start_paused = true)]
    async fn only_own_patches_are_limited() {
        let ask = |method| with_connect_limit(None, slow().oneshot(request(method)));
        let error = ask(Method::PATCH).await.unwrap_err();
        assert!(error.is::<NoResponse>(), "{error}");
        for method in [Method::GET, Method::POST] {
            assert!(ask(method).await.is_ok());
        }
        assert!(slow().oneshot(request(Method::PATCH)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn new_connections_are_not_limited() {
        let connector = TimedConnector(tower::service_fn(|_: Uri| async {
            Ok::<_, Infallible>(())
        }));
        let pool = tower::service_fn(move |_: Request<()>| {
            let connecting = connector.clone().oneshot(Uri::from_static("http://x/"));
            async move {
                connecting.await.unwrap();
                tokio::time::sleep(Duration::from_secs(60)).await;
                Ok::<_, Infallible>(Response::new(()))
            }
        });
        let limit = STALE;
        let service = StaleGuard { pool, limit };
        let asking = with_connect_limit(None, service.oneshot(request(Method::PATCH)));
        assert!(asking.await.is_ok());
    }

    /// Responds to the first requests of a connection only.
    async fn serve(mut connection: TcpStream, answers: usize) {
        let mut bytes = [0; 4096];
        let mut asked = 0;
        while connection
            .read(&mut bytes)
            .await
            .is_ok_and(|length| length > 0)
        {
            asked += 1;
            if asked <= answers {
                let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                connection.write_all(response).await.unwrap();
            }
        }
    }

    #[tokio::test]
    async fn dead_connections_are_replaced() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                connections.spawn(serve(connection, 1));
            }
        });
        let pool: legacy::Client<_, Full<Bytes>> =
            legacy::Builder::new(TokioExecutor::new()).build(TimedConnector(HttpConnector::new()));
        let limit = Duration::from_millis(200);
        let service = StaleGuard { pool, limit };
        let ask = || {
            let request = Request::patch(&address).body(Full::default()).unwrap();
            with_connect_limit(None, service.clone().oneshot(request))
        };
        assert_eq!(ask().await.unwrap().status(), StatusCode::OK);
        let error = ask().await.unwrap_err();
        assert!(error.is::<NoResponse>(), "{error}");
        assert_eq!(made.load(Ordering::SeqCst), 1);
        // The dead one was removed from the pool.
        assert_eq!(ask().await.unwrap().status(), StatusCode::OK);
        assert_eq!(made.load(Ordering::SeqCst), 2);
    }
}
