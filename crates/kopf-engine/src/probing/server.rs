//! The server for probes.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kopf_core::handler::Activity;
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::Endpoint;
use super::listening::Doors;
use super::prober::{Desk, Prober, report};
use crate::activities::Activities;
use crate::inspect::Inspect;
use crate::invocation::Pulse;
use crate::shared::Shared;

/// How many connections there can be at once.
const CONNECTIONS: usize = 64;

/// How long it can take to say what is wanted.
const ASKING: Duration = Duration::from_secs(5);

/// How long an answer can take.
const ANSWERING: Duration = Duration::from_secs(30);

/// How long a connection can take in all.
const CONNECTED: Duration = Duration::from_secs(60);

/// How long answers that are on their way are waited for in the end.
const ENDING: Duration = Duration::from_secs(1);

/// How long to wait when the system has nothing left for another connection.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Upper bound for the front to react.
const PULSE: Duration = Duration::from_secs(10);

/// Answers until it is stopped.
///
/// # Errors
/// If nobody can listen at this address.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    endpoint: Endpoint,
    stop: CancellationToken,
) -> io::Result<()> {
    let doors = Doors::open(&endpoint).await?;
    if let Some(address) = doors.address() {
        shared.inspect.set_probed_at(address);
    }
    debug!("Serving health status at {endpoint}");
    let is_honest = shared.context.settings.process.honest_liveness;
    let inspect = shared.inspect.clone();
    let activities = Activities::new(
        Activity::Probe,
        &shared.registry,
        shared.executor.pool.clone(),
    );
    let (desk, prober) = Prober::new(async move || {
        let context = || Arc::clone(&shared.context);
        if !is_alive(shared.context.pulse.as_deref()).await {
            return Err(DEAD.to_owned());
        }
        report(activities.run(context).await)
    });
    let answering = Arc::new(Answering {
        inspect,
        is_honest,
        path: endpoint.path().to_owned(),
        desk,
    });
    let mut guests = Guests::default();
    let probing = prober.run();
    tokio::pin!(probing);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            // It goes on for as long as there are desks, such as the one above.
            () = &mut probing => break,
            Some(_) = guests.tasks.join_next() => {}
            accepted = doors.accept() => match accepted {
                Ok(stream) => guests.welcome(stream, Arc::clone(&answering)),
                Err(error) => {
                    warn!("A connection of a probe cannot be accepted: {error}");
                    sleep(EXHAUSTED).await;
                }
            },
        }
    }
    drop(doors);
    let ending = timeout(ENDING, async {
        tokio::select! {
            () = &mut probing => {}
            () = guests.leave() => {}
        }
    });
    let _ = ending.await;
    guests.tasks.shutdown().await;
    Ok(())
}

/// Reported if the front does not react.
const DEAD: &str = "the event loop of the operator does not react: a handler may block it";

/// Returns `false` if the front has one and does not react in time.
async fn is_alive(pulse: Option<&dyn Pulse>) -> bool {
    match pulse {
        Some(pulse) => timeout(PULSE, pulse.beat()).await.is_ok(),
        None => true,
    }
}

/// The open connections, the oldest first.
#[derive(Default)]
struct Guests {
    tasks: JoinSet<()>,
    order: VecDeque<AbortHandle>,
}

impl Guests {
    fn welcome(&mut self, stream: TcpStream, answering: Arc<Answering>) {
        self.order.retain(|guest| !guest.is_finished());
        if self.order.len() >= CONNECTIONS
            && let Some(oldest) = self.order.pop_front()
        {
            oldest.abort();
        }
        let task = self.tasks.spawn(async move {
            // Whatever a stranger does to a connection, is the end of that connection alone.
            let _ = timeout(CONNECTED, converse(stream, answering)).await;
        });
        self.order.push_back(task);
    }

    async fn leave(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn converse(stream: TcpStream, answering: Arc<Answering>) -> Result<(), hyper::Error> {
    let service = service_fn(move |request: Request<Incoming>| {
        let answering = Arc::clone(&answering);
        async move { Ok::<_, Infallible>(answering.answer(&request).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ASKING)
        .keep_alive(false)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

/// What answers are made of.
struct Answering {
    inspect: Inspect,
    /// Whether a deaf operator says that it is.
    is_honest: bool,
    path: String,
    desk: Desk,
}

impl Answering {
    async fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if request.uri().path() != self.path {
            return text(StatusCode::NOT_FOUND, "there is nothing here");
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is possible");
            refusal
                .headers_mut()
                .insert(ALLOW, http::HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        let health = self.inspect.health();
        if self.is_honest && !health.is_alive() {
            return text(StatusCode::SERVICE_UNAVAILABLE, health.to_string());
        }
        match timeout(ANSWERING, self.desk.report()).await {
            Ok(Some(report)) => match report.as_ref() {
                Ok(values) => json(values),
                Err(reason) => text(StatusCode::INTERNAL_SERVER_ERROR, reason.clone()),
            },
            Ok(None) => text(StatusCode::SERVICE_UNAVAILABLE, "the operator is stopping"),
            Err(_) => text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the probe handlers take too long",
            ),
        }
    }
}

fn json(values: &serde_json::Map<String, serde_json::Value>) -> Response<Full<Bytes>> {
    // A map of values with texts as keys can always be written.
    let body = serde_json::to_vec(values).unwrap_or_default();
    respond(StatusCode::OK, "application/json; charset=utf-8", body)
}

fn text(code: StatusCode, reason: impl Into<String>) -> Response<Full<Bytes>> {
    let reason = reason.into();
    respond(
        code,
        "text/plain; charset=utf-8",
        format!("{reason}\n").into_bytes(),
    )
}

fn respond(code: StatusCode, kind: &'static str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    let kind = http::HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::sleep;

    use super::super::prober::Report;
    use super::*;

    /// The answer of an operator with these reports to a request.
    async fn ask(
        inspect: &Inspect,
        is_honest: bool,
        report: Report,
        method: &str,
        path: &str,
    ) -> (u16, String) {
        let (desk, prober) = Prober::new(async move || report.clone());
        let answering = Answering {
            inspect: inspect.clone(),
            is_honest,
            path: "/healthz".to_owned(),
            desk,
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .body(())
            .unwrap();
        let response = tokio::select! {
            () = prober.run() => panic!("it ended too early"),
            response = answering.answer(&request) => response,
        };
        let code = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body()).await;
        (
            code,
            String::from_utf8(body.unwrap().to_bytes().to_vec()).unwrap(),
        )
    }

    fn values() -> serde_json::Map<String, serde_json::Value> {
        json!({"now": "12:00"}).as_object().unwrap().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn results_are_told_at_the_exact_path() {
        let inspect = Inspect::default();
        for (method, path, expected) in [
            ("GET", "/healthz", 200),
            ("GET", "/healthz?verbose", 200),
            ("HEAD", "/healthz", 200),
            ("POST", "/healthz", 405),
            ("GET", "/healthz/", 404),
            ("GET", "/", 404),
            ("BREW", "/healthz", 405),
        ] {
            let (code, body) = ask(&inspect, true, Ok(values()), method, path).await;
            assert_eq!(code, expected, "{method} {path}");
            if code == 200 {
                assert_eq!(body, r#"{"now":"12:00"}"#);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_told_with_the_reason() {
        let inspect = Inspect::default();
        let failed = || Err("the database is gone".to_owned());
        let answer = ask(&inspect, true, failed(), "GET", "/healthz").await;
        assert_eq!(answer, (500, "the database is gone\n".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deaf_operator_says_so_unless_it_is_told_to_lie() {
        let inspect = Inspect::default();
        inspect.vitals().begin(Duration::from_secs(70));
        let (code, _) = ask(&inspect, true, Ok(values()), "GET", "/healthz").await;
        assert_eq!(code, 200);
        sleep(Duration::from_secs(100)).await;
        let (code, reason) = ask(&inspect, true, Ok(values()), "GET", "/healthz").await;
        assert_eq!(code, 503);
        assert!(reason.contains("100 seconds after the start"), "{reason}");
        let (code, _) = ask(&inspect, false, Ok(values()), "GET", "/healthz").await;
        assert_eq!(code, 200);
    }
}
