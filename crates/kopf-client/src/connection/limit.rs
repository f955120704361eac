//! How long connecting may take: a limit that belongs to the request, not to the connection pool.

use std::cell::Cell;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Uri;
use tokio::task::futures::TaskLocalFuture;
use tokio::time::timeout;
use tower::{BoxError, Service};

tokio::task_local! {
    // A connector sees only an address. It is called while the request that needs the connection is
    // being polled, so the limit can travel beside it.
    static REQUEST: Needs;
}

/// What belongs to one request.
#[derive(Debug)]
pub(crate) struct Needs {
    limit: Option<Duration>,
    /// Whether a connection was made for it.
    connected_anew: Cell<bool>,
}

/// Does the work, and limits the time to make a connection for it.
pub(crate) fn with_connect_limit<F: Future>(
    limit: Option<Duration>,
    work: F,
) -> TaskLocalFuture<Needs, F> {
    let connected_anew = Cell::new(false);
    let needs = Needs {
        limit,
        connected_anew,
    };
    REQUEST.scope(needs, work)
}

/// Whether what is being polled belongs to a request that waits: connections are finished by the pool in
/// the background when their request has got another one.
pub(super) fn is_asked_for() -> bool {
    REQUEST.try_with(|_| ()).is_ok()
}

/// Whether a connection was made for the request that is being polled.
pub(super) fn is_connected_anew() -> bool {
    REQUEST
        .try_with(|request| request.connected_anew.get())
        .unwrap_or(false)
}

/// There was no connection, TLS included, in time.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no connection within {} seconds", after.as_secs_f64())]
pub(crate) struct ConnectTimedOut {
    pub(crate) after: Duration,
}

/// A connector that keeps to the limit of the request it connects for.
#[derive(Clone, Debug)]
pub(super) struct InTime<C>(pub(super) C);

impl<C> Service<Uri> for InTime<C>
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
            // In the background, where the pool ends what is not needed any more, there is none.
            let _ = REQUEST.try_with(|request| request.connected_anew.set(true));
            connected
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::ServiceExt as _;

    #[tokio::test(start_paused = true)]
    async fn connecting_is_limited_by_the_request() {
        let slow = tower::service_fn(|_: Uri| async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok::<_, BoxError>("connected")
        });
        let connect = || InTime(slow).oneshot(Uri::from_static("https://example.com"));

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
