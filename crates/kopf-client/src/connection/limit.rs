//! The connect timeout: it belongs to the request, not to the connection pool.

use std::cell::Cell;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Uri;
use tokio::task::futures::TaskLocalFuture;
use tokio::time::timeout;
use tower::{BoxError, Service};

tokio::task_local! {
    // A connector gets only an address. It is polled within the request that connecting the connection,
    // so the limit is passed as a task-local value.
    static REQUEST: Connecting;
}

/// The connect timeout of one request, and whether a connection was established for it.
#[derive(Debug)]
pub(crate) struct Connecting {
    limit: Option<Duration>,
    is_new: Cell<bool>,
}

/// Runs a request with a connect timeout.
pub(crate) fn with_connect_limit<F: Future>(
    limit: Option<Duration>,
    work: F,
) -> TaskLocalFuture<Connecting, F> {
    let is_new = Cell::new(false);
    let connecting = Connecting { limit, is_new };
    REQUEST.scope(connecting, work)
}

/// Returns `true` if the current future is polled by a waiting request. The pool completes
/// connections in the background when their request has got another one.
pub(super) fn is_requested() -> bool {
    REQUEST.try_with(|_| ()).is_ok()
}

/// Returns `true` if a connection was established for the current request.
pub(super) fn is_newly_connected() -> bool {
    REQUEST
        .try_with(|request| request.is_new.get())
        .unwrap_or(false)
}

/// The connect timeout is over, TLS handshake included.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no connection within {} seconds", after.as_secs_f64())]
pub(crate) struct ConnectTimedOut {
    pub(crate) after: Duration,
}

/// A connector with the connect timeout of the current request.
#[derive(Clone, Debug)]
pub(super) struct TimedConnector<C>(pub(super) C);

impl<C> Service<Uri> for TimedConnector<C>
where
    C: Service<Uri>,
    C::Response: Send + 'static,
    C::Error: Into<BoxError> + 'static,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<C::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let limit = REQUEST.try_with(|request| request.limit).ok().flatten();
        let connecting = self.0.call(address);
        Box::pin(async move {
            let connected = match limit {
                None => connecting.await.map_err(Into::into),
                Some(after) => match timeout(after, connecting).await {
                    Ok(connected) => connected.map_err(Into::into),
                    Err(_) => Err(ConnectTimedOut { after }.into()),
                },
            };
            // There is no request if the pool completes the connection in the background.
            let _ = REQUEST.try_with(|request| request.is_new.set(true));
            connected
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::ServiceExt as _;

    #[tokio::test(start_paused = true)]
    async fn connect_timeout_comes_from_the_request() {
        let slow = tower::service_fn(|_: Uri| async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok::<_, BoxError>("connected")
        });
        let connect = || TimedConnector(slow).oneshot(Uri::from_static("https://example.com"));

        let error = with_connect_limit(Some(Duration::from_secs(3)), connect()).await;
        let error = error.unwrap_err();
        assert!(error.is::<ConnectTimedOut>(), "{error}");
        let connected = with_connect_limit(Some(Duration::from_secs(6)), connect()).await;
        assert_eq!(connected.unwrap(), "connected");
        assert_eq!(
            with_connect_limit(None, connect()).await.unwrap(),
            "connected"
        );
        assert_eq!(connect().await.unwrap(), "connected");
    }
}
