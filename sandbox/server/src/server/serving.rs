//! Serves HTTP on one TLS connection until it ends, breaks or is cancelled.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use kopf_sandbox_api::access::PeerCertificate;
use kopf_sandbox_api::body::ExecOutput;
use kopf_sandbox_api::body::Unending;
use kopf_sandbox_api::fault::ConnectionFault;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use super::connection::{Control, Controlled};
use super::own::own_connection;
use super::websocket::Handshake;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Maximum number of concurrent requests of one HTTP/2 connection. A client that watches all kinds
/// needs hundreds.
const MAX_STREAMS: u32 = 1000;

/// An executor of HTTP/2 and WebSocket tasks, bound to the life of the connection.
#[derive(Clone)]
struct Streams {
    tracker: TaskTracker,
    alive: CancellationToken,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let alive = self.alive.clone();
        self.tracker.spawn(async move {
            alive.run_until_cancelled(stream).await;
        });
    }
}

/// Returns the builder of connections. The handshake negotiates the protocol; the default is
/// HTTP/1.1.
fn builder(streams: Streams, header_timeout: Duration, is_http2: bool) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS);
    if is_http2 {
        builder.http2_only()
    } else {
        builder.http1_only()
    }
}

/// Serves one connection. `ending` ends it in an orderly way: running requests are finished, and
/// watches end once their queues are empty.
///
/// Cancel-safe: dropping it closes the connection and its requests.
pub(super) async fn serve<S, B>(
    stream: TlsStream<Controlled>,
    service: S,
    control: Control,
    header_timeout: Duration,
    ending: CancellationToken,
) where
    S: Service<http::Request<Incoming>, Response = http::Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (_, tls) = stream.get_ref();
    let peer = tls
        .peer_certificates()
        .and_then(<[_]>::first)
        .and_then(PeerCertificate::parse);
    let is_http2 = tls.alpn_protocol() == Some(b"h2");
    let alive = CancellationToken::new();
    let _alive = alive.clone().drop_guard();
    let streams = Streams {
        tracker: TaskTracker::new(),
        alive,
    };

    let builder = builder(streams.clone(), header_timeout, is_http2);

    let upgraded = streams.tracker.clone();
    let requests = {
        let (control, ending) = (control.clone(), ending.clone());
        hyper::service::service_fn(move |mut request: http::Request<Incoming>| {
            if let Some(peer) = &peer {
                request.extensions_mut().insert(peer.clone());
            }
            let own = own_connection(control.clone(), streams.tracker.clone());
            request.extensions_mut().insert(own);
            let (control, ending) = (control.clone(), ending.clone());
            respond(service.clone(), request, streams.clone(), control, ending)
        })
    };
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), requests);
    let mut serving = std::pin::pin!(serving);
    let outcome = tokio::select! {
        outcome = serving.as_mut() => outcome,
        () = control.gone() => return,
        () = ending.cancelled() => {
            serving.as_mut().graceful_shutdown();
            tokio::select! {
                outcome = serving => outcome,
                () = control.gone() => return,
            }
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(error, "connection ended with an error");
    } else if !is_http2 {
        upgraded.close();
        tokio::select! {
            () = upgraded.wait() => {}
            () = control.gone() => {}
        }
    }
}

/// Serves one request, and applies the fault in its response, if any.
async fn respond<S, B>(
    mut service: S,
    mut request: http::Request<Incoming>,
    streams: Streams,
    control: Control,
    ending: CancellationToken,
) -> Result<http::Response<Either<Guarded<B>, Full<Bytes>>>, Infallible>
where
    S: Service<http::Request<Incoming>, Response = http::Response<B>, Error = Infallible>,
    B: Body<Data = Bytes> + Send + 'static,
{
    std::future::poll_fn(|cx| service.poll_ready(cx)).await?;
    let handshake = Handshake::of(&mut request);
    let mut response = service.call(request).await?;
    match ConnectionFault::of(&response) {
        None => {}
        Some(ConnectionFault::Reset) => {
            control.reset();
            return std::future::pending().await;
        }
        Some(ConnectionFault::HalfOpen) => {
            control.freeze(true);
            return std::future::pending().await;
        }
    }
    let ending = response.extensions().get::<Unending>().map(|_| ending);
    let output = response.extensions_mut().remove::<ExecOutput>();
    let response = response.map(|body| Guarded::new(body, control, ending));
    match (handshake, output) {
        (Some(handshake), Some(output)) => {
            let (response, messages) = handshake.run(output);
            if let Some(messages) = messages {
                streams.execute(messages);
            }
            Ok(response.map(|body| Either::Right(Full::new(body))))
        }
        (Some(handshake), None) if Handshake::applies_to(&response) => {
            let (response, messages) = handshake.accept(response.into_body());
            if let Some(messages) = messages {
                streams.execute(messages);
            }
            Ok(response.map(|body| Either::Right(Full::new(body))))
        }
        _ => Ok(response.map(Either::Left)),
    }
}

/// The body of a response. If it fails, the connection breaks, as with a real server that crashes.
/// When the listener ends, an unending body ends at the next pause.
struct Guarded<B> {
    inner: Pin<Box<B>>,
    control: Control,
    /// The end of the listener, for unending bodies.
    ending: Option<BoxFuture<'static, ()>>,
    ended: bool,
}

impl<B> Guarded<B> {
    fn new(inner: B, control: Control, ending: Option<CancellationToken>) -> Self {
        Self {
            inner: Box::pin(inner),
            control,
            ending: ending.map(|ending| ending.cancelled_owned().boxed()),
            ended: false,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for Guarded<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match self.inner.as_mut().poll_frame(cx) {
            Poll::Ready(Some(Err(error))) => {
                self.control.reset();
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(frame) => Poll::Ready(frame),
            Poll::Pending => match &mut self.ending {
                Some(ending) => {
                    std::task::ready!(ending.poll_unpin(cx));
                    self.ended = true;
                    Poll::Ready(None)
                }
                None => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
