//! One connection: TLS, then HTTP/1.1 or HTTP/2, until either side ends it.

use std::convert::Infallible;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use serde_json::{Map, Value};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::Answering;
use super::activity::Activity;
use super::answering::Visit;
use crate::tls::describe;

/// How many requests at once one HTTP/2 connection can have; others wait. Go opens another
/// connection then.
const STREAMS: u32 = 64;

/// How large the headers of a request can be. API servers send less than 1 KiB.
const HEADERS: u32 = 16 * 1024;

/// How much of a request is read at once, at most; by HTTP/2, how much of one is sent before it is
/// read.
const BUFFER: u32 = 64 * 1024;

/// How much of all requests of one HTTP/2 connection is sent before it is read. It is not counted
/// anywhere, but some that wait for memory must not stop the others.
const WINDOW: u32 = 8 * BUFFER;

/// On which terms connections are taken.
#[derive(Clone)]
pub(crate) struct Terms {
    /// In plain text if there is none.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) answering: Arc<Answering>,
    /// Marked when there are other terms.
    pub(crate) retired: watch::Receiver<()>,
}

/// Serves a connection until it ends, or has to. Dropping it closes the connection, and ends all
/// requests.
pub(super) async fn converse(stream: TcpStream, terms: Terms, activity: Arc<Activity>) {
    tokio::select! {
        () = serve(stream, terms, Arc::clone(&activity)) => {}
        () = activity.dismissed() => {}
    }
}

async fn serve(stream: TcpStream, terms: Terms, activity: Arc<Activity>) {
    // Answers are small and urgent. A socket that refuses this works nevertheless.
    let _ = stream.set_nodelay(true);
    let ended = match &terms.tls {
        None => {
            let visit = terms.visit(activity, Value::Object(Map::new()));
            serve_http1(TokioIo::new(stream), visit).await
        }
        Some(tls) => {
            let acceptor = TlsAcceptor::from(Arc::clone(tls));
            let stream = match acceptor.accept(stream).await {
                Ok(stream) => stream,
                Err(error) => {
                    return debug!("A TLS handshake with the webhook server failed: {error}");
                }
            };
            let (_, session) = stream.get_ref();
            let is_http2 = session.alpn_protocol() == Some(b"h2");
            let certificate = session.peer_certificates().and_then(<[_]>::first);
            if certificate.is_some() {
                activity.verified();
            }
            let peer = certificate.map_or_else(
                || Value::Object(Map::new()),
                |certificate| describe(certificate),
            );
            let retired = terms.retired.clone();
            let visit = terms.visit(activity, peer);
            if is_http2 {
                serve_http2(TokioIo::new(stream), visit, retired).await
            } else {
                serve_http1(TokioIo::new(stream), visit).await
            }
        }
    };
    if let Err(error) = ended {
        debug!("A connection to the webhook server has broken: {error}");
    }
}

impl Terms {
    fn visit(&self, activity: Arc<Activity>, peer: Value) -> Arc<Visit> {
        let (answering, retired) = (Arc::clone(&self.answering), self.retired.clone());
        Arc::new(Visit::new(answering, activity, peer, retired))
    }
}

async fn serve_http1<I>(io: I, visit: Arc<Visit>) -> Result<(), hyper::Error>
where
    I: Read + Write + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let visit = Arc::clone(&visit);
        async move { Ok::<_, Infallible>(visit.answer(request).await) }
    });
    http1::Builder::new()
        // All times are watched from outside, for all kinds of connections alike.
        .header_read_timeout(None)
        .max_header_size(HEADERS as usize)
        .max_buf_size(BUFFER as usize)
        .serve_connection(io, service)
        .await
}

async fn serve_http2<I>(
    io: I,
    visit: Arc<Visit>,
    mut retired: watch::Receiver<()>,
) -> Result<(), hyper::Error>
where
    I: Read + Write + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let visit = Arc::clone(&visit);
        async move { Ok::<_, Infallible>(visit.answer(request).await) }
    });
    let alive = CancellationToken::new();
    // When this is dropped, so are the streams.
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
    tokio::select! {
        ended = connection.as_mut() => return ended,
        _ = retired.changed() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

/// Runs what HTTP/2 does in tasks of its own, for as long as the connection lives.
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
