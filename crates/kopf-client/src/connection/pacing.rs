//! How fast connections are made: not all at once, and none that nobody needs.
//!
//! A handshake costs as much as handling several objects, and a connection costs memory for as long
//! as it lives. The pool asks for a new one whenever none is free at this very moment, even if one
//! will be free in the next: after every answer its connection is away for an instant. So a
//! connection is made only if it is still wanted after a moment, and only a few are made at a time;
//! meanwhile most requests get one that has become free.

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

use super::limit::is_asked_for;

/// How many connections are made at once.
const AT_ONCE: usize = 4;

/// How long to wait for a connection that becomes free.
const MOMENT: Duration = Duration::from_millis(1);

/// How long to wait for others that are being made: a server that does not answer to some may
/// answer to others.
const PATIENCE: Duration = Duration::from_millis(100);

/// The request has got another connection.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the connection is not needed any more")]
struct Unneeded;

/// A connector that takes its time.
#[derive(Clone, Debug)]
pub(super) struct Paced<C> {
    connector: C,
    places: Arc<Semaphore>,
}

impl<C> Paced<C> {
    pub(super) fn new(connector: C) -> Self {
        Self {
            connector,
            places: Arc::new(Semaphore::new(AT_ONCE)),
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
        // The one that is ready is used, and a clone stays for later.
        let clone = self.connector.clone();
        let mut connector = std::mem::replace(&mut self.connector, clone);
        let places = Arc::clone(&self.places);
        // Requests of others than ours say nothing about when they need it no more.
        let paced = is_asked_for();
        Box::pin(async move {
            let mut _place = None;
            if paced {
                let waiting = async {
                    let place = timeout(PATIENCE, places.acquire_owned()).await;
                    sleep(MOMENT).await;
                    place
                };
                _place = while_asked_for(waiting).await?.ok();
            }
            connector.call(address).await.map_err(Into::into)
        })
    }
}

/// The pool goes on with a connection in the background when its request has got another one. What
/// is not begun yet is not begun then.
async fn while_asked_for<T>(waiting: impl Future<Output = T>) -> Result<T, Unneeded> {
    let mut waiting = pin!(waiting);
    poll_fn(|context| {
        if is_asked_for() {
            waiting.as_mut().poll(context).map(Ok)
        } else {
            Poll::Ready(Err(Unneeded))
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

    fn address() -> Uri {
        Uri::from_static("https://example.com")
    }

    /// A connector that counts, and takes the given time.
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
        Paced::new(tower::service_fn(move |_: Uri| {
            calls.fetch_add(1, Ordering::Relaxed);
            let connecting = async move {
                if !time.is_zero() {
                    sleep(time).await;
                }
                Ok::<_, BoxError>("connected")
            };
            Box::pin(connecting) as BoxFuture<'static, _>
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn few_are_made_at_once_and_nobody_waits_for_long() {
        let calls = Arc::default();
        let connector = counting(&calls, SLOW);
        let all = (0..10).map(|_| with_connect_limit(None, connector.clone().oneshot(address())));
        let watching = async {
            sleep(PATIENCE / 2).await;
            let early = calls.load(Ordering::Relaxed);
            sleep(PATIENCE).await;
            (early, calls.load(Ordering::Relaxed))
        };
        let start = Instant::now();
        let (made, counted) = futures::future::join(join_all(all), watching).await;
        assert!(made.into_iter().all(|made| made.is_ok()));
        assert_eq!(counted, (AT_ONCE, 10));
        assert!(start.elapsed() < SLOW + PATIENCE * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_needed_any_more_is_not_made() {
        let calls = Arc::default();
        let mut connecting = Box::pin(counting(&calls, SLOW).oneshot(address()));
        let begin = poll_fn(|context| Poll::Ready(connecting.as_mut().poll(context).is_pending()));
        assert!(with_connect_limit(None, begin).await, "it takes a moment");
        // This is what the pool does with it.
        let error = connecting.await.unwrap_err();
        assert!(error.is::<Unneeded>(), "{error}");
        assert_eq!(calls.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_others_are_not_held_up() {
        let calls = Arc::default();
        let start = Instant::now();
        let connector = counting(&calls, Duration::ZERO);
        connector.oneshot(address()).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
