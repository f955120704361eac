//! The HTTP server of the page, on the loopback interface.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::access::TOKEN;
use super::api::{Api, Fields, Problem};
use super::stream;

/// Upper bound for the number of connections. Every open page has one for its stream.
const CONNECTIONS: usize = 64;

/// The time limit for the headers of a request, also after the previous one: then idle connections
/// are closed.
const HEADERS: Duration = Duration::from_secs(10);

/// Upper bound for the body of a request, in bytes.
const BODY: usize = 64 * 1024;

/// The delay after a failed accept, for example because of exhausted file descriptors.
const EXHAUSTED: Duration = Duration::from_millis(100);

const PAGE: &str = include_str!("../../assets/index.html");
const SCRIPT: &str = include_str!("../../assets/app.js");
const STYLE: &str = include_str!("../../assets/style.css");

/// Allows scripts and styles of this server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

type Content = UnsyncBoxBody<Bytes, Infallible>;

/// Serves the page until it is dropped. New connections are always accepted; the oldest ones make
/// room for them, those without a valid token first.
pub(super) async fn serve(listener: TcpListener, api: Arc<Api>) {
    let mut tasks = JoinSet::new();
    let mut open: Vec<Connection> = Vec::new();
    loop {
        tokio::select! {
            Some(ended) = tasks.join_next_with_id() => {
                let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                open.retain(|connection| connection.task.id() != id);
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    if open.len() >= CONNECTIONS {
                        close_oldest(&mut open);
                    }
                    let trust = Trust::default();
                    let serving = serve_connection(stream, Arc::clone(&api), trust.clone());
                    let task = tasks.spawn(serving);
                    open.push(Connection { task, trust });
                }
                Err(_) => sleep(EXHAUSTED).await,
            },
        }
    }
}

/// An open connection.
struct Connection {
    task: AbortHandle,
    trust: Trust,
}

/// Set when a request of the connection has the token.
#[derive(Clone, Debug, Default)]
struct Trust(Arc<AtomicBool>);

impl Trust {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn close_oldest(open: &mut Vec<Connection>) {
    let stranger = open
        .iter()
        .position(|connection| !connection.trust.is_set());
    open.remove(stranger.unwrap_or_default()).task.abort();
}

async fn serve_connection(stream: TcpStream, api: Arc<Api>, trust: Trust) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (api, trust) = (Arc::clone(&api), trust.clone());
        async move { Ok::<_, Infallible>(respond(&api, &trust, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    // The page reconnects after an error.
    let _ = connection.await;
}

async fn respond(api: &Arc<Api>, trust: &Trust, request: Request<Incoming>) -> Response<Content> {
    if let Err(refusal) = api.access.check_address(request.headers()) {
        return text(StatusCode::FORBIDDEN, refusal.text());
    }
    let path = request.uri().path().to_owned();
    let is_get = request.method() == Method::GET;
    // Assets contain no secrets and need no token.
    match path.as_str() {
        "/app.js" if is_get => return asset("text/javascript; charset=utf-8", SCRIPT),
        "/style.css" if is_get => return asset("text/css; charset=utf-8", STYLE),
        _ => {}
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    let fields = query_fields(&query);
    let header = request
        .headers()
        .get(TOKEN)
        .and_then(|value| value.to_str().ok());
    let token = match request.method() {
        // Browsers send no custom headers for links and event streams.
        &Method::GET => header.or(fields.get("token")),
        _ => header,
    };
    if let Err(refusal) = api.access.check_token(token) {
        return text(StatusCode::FORBIDDEN, refusal.text());
    }
    trust.set();
    match (path.as_str(), is_get) {
        ("/", true) => asset("text/html; charset=utf-8", PAGE),
        ("/api/stream", true) => {
            let body = StreamBody::new(stream::events(Arc::clone(api)));
            reply(StatusCode::OK, "text/event-stream", body.boxed_unsync())
        }
        ("/api/overview", true) => json(Ok(api.overview().await)),
        ("/api/object", true) => json(api.explain(&fields).await),
        ("/api/retrigger", false) if request.method() == Method::POST => {
            json(retrigger(api, request).await)
        }
        ("/" | "/api/stream" | "/api/overview" | "/api/object" | "/api/retrigger", _) => {
            text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed")
        }
        _ => text(StatusCode::NOT_FOUND, "not found"),
    }
}

async fn retrigger(api: &Api, request: Request<Incoming>) -> Result<Value, Problem> {
    let bad = |text: &str| Problem {
        code: StatusCode::BAD_REQUEST,
        text: text.to_owned(),
    };
    let body = Limited::new(request.into_body(), BODY).collect().await;
    let body = body.map_err(|_| bad("the body is too large or incomplete"))?;
    let value: Value = serde_json::from_slice(&body.to_bytes())
        .map_err(|error| bad(&format!("the body is not JSON: {error}")))?;
    let fields = value
        .as_object()
        .ok_or_else(|| bad("the body is not an object"))?;
    let fields = fields
        .iter()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?.to_owned())));
    api.retrigger(&Fields(fields.collect())).await
}

fn query_fields(query: &str) -> Fields<'_> {
    let parts = query.split('&').filter_map(|part| part.split_once('='));
    let parts = parts.map(|(key, value)| {
        let value = value.replace('+', " ");
        let value = percent_decode_str(&value).decode_utf8_lossy().into_owned();
        (key, value)
    });
    Fields(parts.collect())
}

fn asset(kind: &'static str, content: &'static str) -> Response<Content> {
    let body = Full::new(Bytes::from_static(content.as_bytes()));
    reply(StatusCode::OK, kind, body.boxed_unsync())
}

fn json(result: Result<Value, Problem>) -> Response<Content> {
    match result {
        Ok(value) => {
            let body = Full::new(Bytes::from(value.to_string()));
            reply(StatusCode::OK, "application/json", body.boxed_unsync())
        }
        Err(problem) => text(problem.code, &problem.text),
    }
}

fn text(code: StatusCode, reason: &str) -> Response<Content> {
    let body = Full::new(Bytes::from(format!("{reason}\n")));
    reply(code, "text/plain; charset=utf-8", body.boxed_unsync())
}

fn reply(code: StatusCode, kind: &'static str, body: Content) -> Response<Content> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers: [(HeaderName, &'static str); 5] = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        // The URL of the page contains the token.
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
    ];
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}
