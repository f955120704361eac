//! Pacing of new connections.
//!
//! A TLS handshake costs as much as handling several objects, and a connection costs memory as long
//! as it lives. The pool requests a new one whenever none is idle at that moment, although each
//! connection is away for an instant after its response. Therefore a connection is established only
//! if it is still needed after a millisecond, and only a few at a time. Meanwhile most requests get
//! one that has become idle.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Uri;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tower::{BoxError, Service};

use super::limit::is_requested;

/// The delay before a handshake, in which another connection can become idle.
const DELAY: Duration = Duration::from_millis(1);

/// Limits of handshakes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The maximum number of concurrent handshakes.
    pub(super) at_once: usize,
    /// Upper bound for the wait for other handshakes: a server can be unresponsive to some and not
    /// to others.
    pub(super) max_wait: Duration,
}

/// The request has got another connection meanwhile.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the connection is no longer needed")]
struct Obsolete;

/// A connector that delays and limits handshakes.
#[derive(Clone, Debug)]
pub(super) struct Paced<C> {
    connector: C,
    permits: Arc<Semaphore>,
    max_wait: Duration,
}

impl<C> Paced<C> {
    pub(super) fn new(connector: C, pace: Pace) -> Self {
        Self {
            connector,
            permits: Arc::new(Semaphore::new(pace.at_once)),
            max_wait: pace.max_wait,
        }
    }
}

impl<C> Service<Uri> for Paced<C>
where
    C: Service<Uri> + Clone + Send + 'static,
    C::Response: Send + 'static,
    C::Error: Into<BoxError> + 'static,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<C::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        // Only this instance was polled for readiness; the clone is for later calls.
        let clone = self.connector.clone();
        let mut connector = std::mem::replace(&mut self.connector, clone);
        let permits = Arc::clone(&self.permits);
        let max_wait = self.max_wait;
        // Requests of kube's client have no task-local value that shows when they are over.
        let paced = is_requested();
        Box::pin(async move {
            let mut _permit = None;
            if paced {
                let waiting = async {
                    let permit = timeout(max_wait, permits.acquire_owned()).await;
                    sleep(DELAY).await;
                    permit
                };
                _permit = while_requested(waiting).await?.ok();
            }
            connector.call(address).await.map_err(Into::into)
        })
    }
}

/// Polls a future as long as its request waits. The pool continues obsolete connections in the
/// background; those that have not started yet are given up there.
async fn while_requested<T>(waiting: impl Future<Output = T>) -> Result<T, Obsolete> {
    let mut waiting = pin!(waiting);
    poll_fn(|context| {
        if is_requested() {
            waiting.as_mut().poll(context).map(Ok)
        } else {
            Poll::Ready(Err(Obsolete))
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use tokio::time::Instant;
    use tower::ServiceExt as _;

    use super::super::limit::with_connect_limit;
    use super::*;

    const SLOW: Duration = Duration::from_secs(5);
    const AT_ONCE: usize = 4;
    const MAX_WAIT: Duration = Duration::from_millis(100);

    fn address() -> Uri {
        Uri::from_static("https://example.com")
    }

    /// Returns a connector that counts its calls and takes the given time.
    fn counting(
        calls: &Arc<AtomicUsize>,
        time: Duration,
    ) -> Paced<
        impl Service<
            Uri,
            Response = &'static str,
            Error = BoxError,
            Future = BoxFuture<'static, Result<&'static str, BoxError>>,
        > + Clone
        + Send
        + use<>,
    > {
        let calls = Arc::clone(calls);
        let connector = tower::service_fn(move |_: Uri| {
            calls.fetch_add(1, Ordering::Relaxed);
            let connecting = async move {
                if !time.is_zero() {
                    sleep(time).await;
                }
                Ok::<_, BoxError>("connected")
            };
            Box::pin(connecting) as BoxFuture<'static, _>
        });
        let pace = Pace {
            at_once: AT_ONCE,
            max_wait: MAX_WAIT,
        };
        Paced::new(connector, pace)
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_handshakes_are_limited() {
        let calls = Arc::default();
        let connector = counting(&calls, SLOW);
        let all = (0..10).map(|_| with_connect_limit(None, connector.clone().oneshot(address())));
        let watching = async {
            sleep(MAX_WAIT / 2).await;
            let early = calls.load(Ordering::Relaxed);
            sleep(MAX_WAIT).await;
            (early, calls.load(Ordering::Relaxed))
        };
        let start = Instant::now();
        let (made, counted) = futures::future::join(join_all(all), watching).await;
        assert!(made.into_iter().all(|made| made.is_ok()));
        assert_eq!(counted, (AT_ONCE, 10));
        assert!(start.elapsed() < SLOW + MAX_WAIT * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn obsolete_connections_are_not_established() {
        let calls = Arc::default();
        let mut connecting = Box::pin(counting(&calls, SLOW).oneshot(address()));
        let begin = poll_fn(|context| Poll::Ready(connecting.as_mut().poll(context).is_pending()));
        assert!(
            with_connect_limit(None, begin).await,
            "the handshake is delayed"
        );
        // The pool polls it in the background.
        let error = connecting.await.unwrap_err();
        assert!(error.is::<Obsolete>(), "{error}");
        assert_eq!(calls.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_kube_are_not_delayed() {
        let calls = Arc::default();
        let start = Instant::now();
        let connector = counting(&calls, Duration::ZERO);
        connector.oneshot(address()).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
