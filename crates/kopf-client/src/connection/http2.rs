//! HTTP/2: many requests on few connections.
//!
//! Requests of different purposes do not share connections: a long list that is read slowly would
//! otherwise delay watches and writes by the flow control of the connection. If the server does not
//! offer HTTP/2, or a request has no [`Purpose`], it is sent by HTTP/1.1.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::Connect;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kopf_core::sync::Mutex;
use kube::client::Body as RequestBody;
use tower::Service;

/// The number of streams after which another connection is used. API servers accept 100.
const STREAMS: usize = 80;

/// Upper bound for the number of connections of one purpose. Then streams wait for each other.
const CONNECTIONS: usize = 64;

/// The interval of pings, also on idle connections, and the time limit for their acknowledgement.
const PING: Duration = Duration::from_secs(15);
const PONG: Duration = Duration::from_secs(15);

/// The data that a server may send before it was read, in bytes: of a stream, and of all streams of
/// a connection. No stream can use up the share of the others.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * 80;

/// The purpose of a request, as its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A stream of events.
    Watch,
    /// A document or a list.
    Read,
    /// A change.
    Write,
}

type Pool<C> = legacy::Client<C, RequestBody>;

/// Connection pools of HTTP/1.1 and of HTTP/2.
#[derive(Clone, Debug)]
pub(super) struct Pools<C> {
    plain: Pool<C>,
    shared: Arc<Shared<C>>,
}

/// The connections of HTTP/2.
#[derive(Debug)]
struct Shared<C> {
    /// Negotiates the version.
    connector: C,
    /// `false` as soon as the server has chosen HTTP/1.1.
    is_offered: AtomicBool,
    watches: Mutex<Vec<Lane<C>>>,
    reads: Mutex<Vec<Lane<C>>>,
    writes: Mutex<Vec<Lane<C>>>,
}

/// A pool with one connection.
#[derive(Debug)]
struct Lane<C> {
    pool: Pool<C>,
    /// Cloned by each of its streams.
    seat: Seat,
}

type Seat = Arc<()>;

impl<C> Pools<C>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    /// Creates pools: the connector of the second one negotiates the version.
    pub(super) fn new(plain: Pool<C>, connector: C) -> Self {
        let shared = Shared {
            connector,
            is_offered: AtomicBool::new(true),
            watches: Mutex::default(),
            reads: Mutex::default(),
            writes: Mutex::default(),
        };
        Self {
            plain,
            shared: Arc::new(shared),
        }
    }
}

impl<C> Shared<C>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    /// Returns a connection with room for another stream.
    fn seat(&self, purpose: Purpose) -> (Pool<C>, Seat) {
        let mut lanes = match purpose {
            Purpose::Watch => self.watches.lock(),
            Purpose::Read => self.reads.lock(),
            Purpose::Write => self.writes.lock(),
        };
        let free = lanes.iter().position(|lane| lane.streams() < STREAMS);
        let least = || (0..lanes.len()).min_by_key(|index| lanes[*index].streams());
        let index = match free {
            Some(index) => index,
            None if lanes.len() >= CONNECTIONS => least().unwrap_or_default(),
            None => {
                let pool = negotiating(self.connector.clone());
                let seat = Seat::default();
                lanes.push(Lane { pool, seat });
                lanes.len() - 1
            }
        };
        let lane = &lanes[index];
        (lane.pool.clone(), Seat::clone(&lane.seat))
    }
}

impl<C> Lane<C> {
    fn streams(&self) -> usize {
        Arc::strong_count(&self.seat) - 1
    }
}

/// Creates a pool whose only connection is shared by its requests, and kept until it breaks.
fn negotiating<C>(connector: C) -> Pool<C>
where
    C: Connect + Clone,
{
    legacy::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(None)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PONG)
        .http2_keep_alive_while_idle(true)
        .build(connector)
}

impl<C> Service<Request<RequestBody>> for Pools<C>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    type Response = Response<Streamed>;
    type Error = legacy::Error;
    type Future = Answering<C>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), legacy::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let purpose = request.extensions().get::<Purpose>();
        match purpose.filter(|_| self.shared.is_offered.load(Ordering::Relaxed)) {
            None => Answering {
                response: self.plain.request(request),
                shared: None,
            },
            Some(purpose) => {
                let (pool, seat) = self.shared.seat(*purpose);
                Answering {
                    response: pool.request(request),
                    shared: Some((Arc::clone(&self.shared), seat)),
                }
            }
        }
    }
}

/// The wait for a response.
pub(super) struct Answering<C> {
    response: legacy::ResponseFuture,
    shared: Option<(Arc<Shared<C>>, Seat)>,
}

impl<C> Future for Answering<C> {
    type Output = Result<Response<Streamed>, legacy::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(Pin::new(&mut self.response).poll(context))?;
        let seat = self.shared.take().map(|(shared, seat)| {
            if response.version() < Version::HTTP_2 {
                shared.is_offered.store(false, Ordering::Relaxed);
            }
            seat
        });
        let streamed = |body| Streamed { body, _seat: seat };
        Poll::Ready(Ok(response.map(streamed)))
    }
}

/// The body of a response. Its stream ends with it.
#[derive(Debug)]
pub(super) struct Streamed {
    body: Incoming,
    _seat: Option<Seat>,
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
