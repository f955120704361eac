//! How long a request may wait for an answer on a connection that has worked before.
//!
//! A connection can die without a word: a gateway forgets it, a machine is gone. Whoever asks on it
//! then waits until the whole time for requests is over, and the object with it. A new connection
//! does not have that problem, so that suspecting an old one costs at most a repetition. The system
//! notices some of these, but not those that die behind a proxy that is alive.
//!
//! Only patches are suspicious of their connections: ours can be repeated safely. Either they say
//! the same again, or they name the version they are for.

use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request};
use tokio::time::timeout;
use tower::{BoxError, Service};

use super::limit::{is_asked_for, is_connected_anew};

/// Longer than connections stay in the pool unused, so that the next attempt has another one.
pub(super) const SUSPICIOUS: Duration = Duration::from_secs(30);

/// Nothing came back on an old connection.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no answer within {} seconds on a connection that was used before", after.as_secs_f64())]
pub(crate) struct NoAnswer {
    pub(crate) after: Duration,
}

/// The connection pool, with limited trust into what is in it.
#[derive(Clone, Debug)]
pub(super) struct Distrustful<S> {
    pub(super) pool: S,
    pub(super) limit: Duration,
}

impl<S, B> Service<Request<B>> for Distrustful<S>
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
        // Of requests that are not ours it is not known whether anybody would repeat them.
        let is_repeatable = request.method() == Method::PATCH && is_asked_for();
        let answering = self.pool.call(request);
        let after = self.limit;
        Box::pin(async move {
            let mut answering = pin!(answering);
            if is_repeatable {
                match timeout(after, &mut answering).await {
                    Ok(answer) => return answer.map_err(Into::into),
                    Err(_) if is_connected_anew() => {}
                    Err(_) => return Err(NoAnswer { after }.into()),
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

    use super::super::limit::{InTime, with_connect_limit};
    use super::*;

    fn request(method: Method) -> Request<()> {
        let request = Request::builder().method(method).uri("http://x/");
        request.body(()).unwrap()
    }

    /// Answers after a minute.
    fn slow() -> Distrustful<
        impl Service<Request<()>, Response = Response<()>, Error = Infallible, Future: Send> + Clone,
    > {
        let pool = tower::service_fn(|_: Request<()>| async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok::<_, Infallible>(Response::new(()))
        });
        let limit = SUSPICIOUS;
        Distrustful { pool, limit }
    }

    #[tokio::test(start_paused = true)]
    async fn only_own_patches_do_not_wait_for_long() {
        let ask = |method| with_connect_limit(None, slow().oneshot(request(method)));
        let error = ask(Method::PATCH).await.unwrap_err();
        assert!(error.is::<NoAnswer>(), "{error}");
        for method in [Method::GET, Method::POST] {
            assert!(ask(method).await.is_ok());
        }
        assert!(slow().oneshot(request(Method::PATCH)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_is_trusted() {
        let connector = InTime(tower::service_fn(|_: Uri| async {
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
        let limit = SUSPICIOUS;
        let service = Distrustful { pool, limit };
        let asking = with_connect_limit(None, service.oneshot(request(Method::PATCH)));
        assert!(asking.await.is_ok());
    }

    /// Answers to so many requests of a connection, then to none.
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
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                connection.write_all(answer).await.unwrap();
            }
        }
    }

    #[tokio::test]
    async fn after_a_dead_connection_another_one_is_made() {
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
            legacy::Builder::new(TokioExecutor::new()).build(InTime(HttpConnector::new()));
        let limit = Duration::from_millis(200);
        let service = Distrustful { pool, limit };
        let ask = || {
            let request = Request::patch(&address).body(Full::default()).unwrap();
            with_connect_limit(None, service.clone().oneshot(request))
        };
        assert_eq!(ask().await.unwrap().status(), StatusCode::OK);
        let error = ask().await.unwrap_err();
        assert!(error.is::<NoAnswer>(), "{error}");
        assert_eq!(made.load(Ordering::SeqCst), 1);
        // It is not in the pool any more.
        assert_eq!(ask().await.unwrap().status(), StatusCode::OK);
        assert_eq!(made.load(Ordering::SeqCst), 2);
    }
}
