//! One client connection: TLS, then HTTP/1.1 or HTTP/2, until either side closes it.

use std::convert::Infallible;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::Responder;
use super::activity::Activity;
use super::responder::Session;
use crate::tls::describe;

/// Upper bound for concurrent requests on one HTTP/2 connection. Go opens another connection when it
/// is reached.
const STREAMS: u32 = 64;

/// Upper bound for the headers of a request in bytes. API servers send less than 1 KiB.
const HEADERS: u32 = 16 * 1024;

/// Upper bound for one read from a connection in bytes; in HTTP/2, the window of a stream.
const BUFFER: u32 = 64 * 1024;

/// Window of an HTTP/2 connection. It is not counted by the memory limits, but streams that wait for
/// memory must not stall the others.
const WINDOW: u32 = 8 * BUFFER;

/// Configuration of accepted connections.
#[derive(Clone)]
pub(crate) struct ConnectionConfig {
    /// `None` for plain HTTP.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) responder: Arc<Responder>,
    /// Notified when the certificate is replaced.
    pub(crate) retired: watch::Receiver<()>,
    /// Cancelled when the server stops.
    pub(crate) stopping: CancellationToken,
}

/// Serves a connection until it ends, is evicted, or the server stops and its requests have ended.
/// Dropping the future closes the connection and drops its requests.
pub(super) async fn serve_connection(
    stream: TcpStream,
    config: ConnectionConfig,
    activity: Arc<Activity>,
) {
    tokio::select! {
        () = serve(stream, config, Arc::clone(&activity)) => {}
        () = activity.dismissed() => {}
    }
}

async fn serve(stream: TcpStream, config: ConnectionConfig, activity: Arc<Activity>) {
    // Responses are small and urgent. Sockets that do not support the option work without it.
    let _ = stream.set_nodelay(true);
    let ended = match &config.tls {
        None => {
            let session = config.session(activity, None);
            serve_http1(TokioIo::new(stream), session, &config.stopping).await
        }
        Some(tls) => {
            let accepting = TlsAcceptor::from(Arc::clone(tls)).accept(stream);
            match config.stopping.run_until_cancelled(accepting).await {
                Some(Ok(stream)) => serve_tls(stream, &config, activity).await,
                Some(Err(error)) => {
                    debug!("A TLS handshake with the webhook server failed: {error}");
                    return;
                }
                None => return,
            }
        }
    };
    if let Err(error) = ended {
        debug!("A connection to the webhook server failed: {error}");
    }
}

async fn serve_tls(
    stream: TlsStream<TcpStream>,
    config: &ConnectionConfig,
    activity: Arc<Activity>,
) -> Result<(), hyper::Error> {
    let (_, tls) = stream.get_ref();
    let is_http2 = tls.alpn_protocol() == Some(b"h2");
    let certificate = tls.peer_certificates().and_then(<[_]>::first);
    if certificate.is_some() {
        activity.verified();
    }
    let peer = certificate.map(|certificate| describe(certificate));
    let session = config.session(activity, peer);
    let io = TokioIo::new(stream);
    if is_http2 {
        serve_http2(io, session, config).await
    } else {
        serve_http1(io, session, &config.stopping).await
    }
}

impl ConnectionConfig {
    fn session(&self, activity: Arc<Activity>, peer: Option<Value>) -> Arc<Session> {
        let (responder, retired) = (Arc::clone(&self.responder), self.retired.clone());
        Arc::new(Session::new(responder, activity, peer, retired))
    }
}

async fn serve_http1<I>(
    io: I,
    session: Arc<Session>,
    stopping: &CancellationToken,
) -> Result<(), hyper::Error>
where
    I: Read + Write + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let session = Arc::clone(&session);
        async move { Ok::<_, Infallible>(session.respond(request).await) }
    });
    let connection = http1::Builder::new()
        // Times are checked by `Connections`, for both versions of HTTP.
        .header_read_timeout(None)
        .max_header_size(HEADERS as usize)
        .max_buf_size(BUFFER as usize)
        .serve_connection(io, service);
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = stopping.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

async fn serve_http2<I>(
    io: I,
    session: Arc<Session>,
    config: &ConnectionConfig,
) -> Result<(), hyper::Error>
where
    I: Read + Write + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let session = Arc::clone(&session);
        async move { Ok::<_, Infallible>(session.respond(request).await) }
    });
    let alive = CancellationToken::new();
    // Ends the tasks of the streams when the connection is dropped.
    let _alive = alive.clone().drop_guard();
    let streams = Streams {
        tracker: TaskTracker::new(),
        alive,
    };
    let connection = http2::Builder::new(streams)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADERS)
        .initial_stream_window_size(BUFFER)
        .initial_connection_window_size(WINDOW)
        .serve_connection(io, service);
    tokio::pin!(connection);
    let mut retired = config.retired.clone();
    tokio::select! {
        ended = connection.as_mut() => return ended,
        _ = retired.changed() => {}
        () = config.stopping.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// Executor for the streams of one HTTP/2 connection. Their tasks end with it.
#[derive(Clone)]
struct Streams {
    tracker: TaskTracker,
    alive: CancellationToken,
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let alive = self.alive.clone();
        self.tracker.spawn(async move {
            alive.run_until_cancelled(stream).await;
        });
    }
}
