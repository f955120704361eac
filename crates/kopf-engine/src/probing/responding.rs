//! Responses to probes and scrapes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use kopf_client::Client;
use tokio::time::timeout;

use super::paths::{Paths, Route};
use super::prober::ReportHandle;
use super::readiness::{Condition, Conditions, liveness};
use crate::indexing::Barrier;
use crate::inspect::Inspect;
use crate::invocation::Heartbeat;
use crate::metrics::Format;

/// Time limit for the probe handlers.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for the frontend to react.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);

/// The problem of a frontend that does not react in time.
pub(super) const UNRESPONSIVE: &str =
    "the event loop of the operator does not react: a handler may block it";

const JSON: &str = "application/json; charset=utf-8";

/// Responds to the requests at one address.
pub(super) struct Responder {
    pub(super) inspect: Inspect,
    pub(super) client: Client,
    pub(super) barrier: Barrier,
    pub(super) heartbeat: Option<Arc<dyn Heartbeat>>,
    pub(super) paths: Paths,
    pub(super) reports: ReportHandle,
}

impl Responder {
    /// Responds to a request.
    pub(super) async fn respond<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let Some(route) = self.paths.route(request.uri().path()) else {
            return text(StatusCode::NOT_FOUND, "not found");
        };
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut refusal = text(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and HEAD are supported",
            );
            let allowed = HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(ALLOW, allowed);
            return refusal;
        }
        match route {
            Route::Probe => self.probe().await,
            Route::Metrics => self.metrics(request),
            Route::Readiness => self.readiness().await,
            Route::Liveness => self.liveness().await,
        }
    }

    /// Responds with the same statuses and bodies as the original.
    async fn probe(&self) -> Response<Full<Bytes>> {
        let health = self.inspect.health();
        if !health.is_alive() {
            return text(StatusCode::SERVICE_UNAVAILABLE, health.to_string());
        }
        match timeout(PROBE_TIMEOUT, self.reports.report()).await {
            Ok(Some(report)) => match report.as_ref() {
                // A map with string keys can always be serialized.
                Ok(values) => {
                    let body = serde_json::to_vec(values).unwrap_or_default();
                    response(StatusCode::OK, JSON, body)
                }
                Err(reason) => text(StatusCode::INTERNAL_SERVER_ERROR, reason.clone()),
            },
            Ok(None) => text(StatusCode::SERVICE_UNAVAILABLE, "the operator is stopping"),
            Err(_) => text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the probe handlers take too long",
            ),
        }
    }

    fn metrics<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let accept = request.headers().get_all(ACCEPT).iter();
        let accept: Vec<_> = accept.filter_map(|value| value.to_str().ok()).collect();
        let format = Format::negotiate(&accept.join(","));
        match self.inspect.metrics(format) {
            Some(metrics) => response(StatusCode::OK, format.content_type(), metrics.into()),
            None => text(
                StatusCode::NOT_FOUND,
                "metrics are disabled: set settings.process.metrics to true",
            ),
        }
    }

    async fn readiness(&self) -> Response<Full<Bytes>> {
        let conditions = self.conditions().await;
        let code = code(conditions.is_ready());
        response(code, JSON, conditions.to_json().to_string().into())
    }

    async fn liveness(&self) -> Response<Full<Bytes>> {
        let mut health = self.inspect.health();
        if !reacts(self.heartbeat.as_deref()).await {
            health.problems.push(UNRESPONSIVE.to_owned());
        }
        let code = code(health.is_alive());
        response(code, JSON, liveness(&health).to_string().into())
    }

    /// Returns the conditions of readiness. An operator that was ready once stays ready during outages
    /// of the API server, because its webhooks are needed then, too.
    async fn conditions(&self) -> Conditions {
        let health_tracker = self.inspect.health_tracker();
        let was_ready = health_tracker.was_ready();
        let conditions = [
            (Condition::Running, !self.inspect.is_stopping()),
            (Condition::Credentials, self.client.has_credentials()),
            (Condition::Discovery, !health_tracker.is_searching()),
            (Condition::Indices, self.barrier.is_lifted()),
            (
                Condition::EventLoop,
                reacts(self.heartbeat.as_deref()).await,
            ),
        ];
        let unmet = conditions.into_iter().filter(|(condition, is_met)| {
            let is_lasting = matches!(condition, Condition::Running | Condition::EventLoop);
            !is_met && (is_lasting || !was_ready)
        });
        let mut conditions = Conditions {
            health: self.inspect.health(),
            unlisted: health_tracker.unlisted(),
            unmet: unmet.map(|(condition, _)| condition).collect(),
        };
        if was_ready {
            let unlisted = std::mem::take(&mut conditions.unlisted);
            conditions.health.notes.extend(unlisted);
        } else if conditions.is_ready() {
            health_tracker.note_ready();
        }
        conditions
    }
}

/// Returns `false` if the frontend has a heartbeat and does not react in time.
pub(super) async fn reacts(heartbeat: Option<&dyn Heartbeat>) -> bool {
    match heartbeat {
        Some(heartbeat) => timeout(HEARTBEAT_TIMEOUT, heartbeat.beat()).await.is_ok(),
        None => true,
    }
}

fn code(is_well: bool) -> StatusCode {
    if is_well {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

fn text(code: StatusCode, reason: impl Into<String>) -> Response<Full<Bytes>> {
    let reason = reason.into();
    response(
        code,
        "text/plain; charset=utf-8",
        format!("{reason}\n").into_bytes(),
    )
}

fn response(code: StatusCode, kind: &'static str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};
    use tokio::time::sleep;

    use super::super::prober::{Prober, Report};
    use super::*;
    use crate::fake_api::{FakeResponse, serve};
    use crate::metrics::Metrics;

    /// A request to an operator, and the response.
    struct Asking<'a> {
        inspect: &'a Inspect,
        report: Report,
    }

    impl Asking<'_> {
        async fn ask(&self, method: &str, path: &str, accept: &str) -> Response<Full<Bytes>> {
            let report = self.report.clone();
            let (reports, prober) = Prober::new(async move || report.clone());
            let responder = Responder {
                inspect: self.inspect.clone(),
                client: serve(|_| FakeResponse::Never).0,
                barrier: Barrier::default(),
                heartbeat: None,
                paths: Paths {
                    probe: Some("/healthz".to_owned()),
                    metrics: Some("/metrics".to_owned()),
                },
                reports,
            };
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header(ACCEPT, accept)
                .body(())
                .unwrap();
            tokio::select! {
                () = prober.run() => panic!("the prober ended"),
                response = responder.respond(&request) => response,
            }
        }

        /// The code and the body.
        async fn get(&self, method: &str, path: &str) -> (u16, String) {
            let response = self.ask(method, path, "").await;
            let code = response.status().as_u16();
            let body = http_body_util::BodyExt::collect(response.into_body()).await;
            let body = body.unwrap().to_bytes().to_vec();
            (code, String::from_utf8(body).unwrap())
        }
    }

    fn values() -> Map<String, Value> {
        json!({"now": "12:00"}).as_object().unwrap().clone()
    }

    fn healthy(inspect: &Inspect) -> Asking<'_> {
        Asking {
            inspect,
            report: Ok(values()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn results_are_served_at_the_exact_path() {
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
            let (code, body) = healthy(&inspect).get(method, path).await;
            assert_eq!(code, expected, "{method} {path}");
            if code == 200 {
                assert_eq!(body, r#"{"now":"12:00"}"#);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_served_with_the_reason() {
        let inspect = Inspect::default();
        let failed = Asking {
            report: Err("the database is gone".to_owned()),
            ..healthy(&inspect)
        };
        let response = failed.get("GET", "/healthz").await;
        assert_eq!(response, (500, "the database is gone\n".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_of_the_cluster_is_a_note() {
        let inspect = Inspect::default();
        inspect.health_tracker().begin(Duration::from_secs(70));
        sleep(Duration::from_secs(100)).await;
        assert_eq!(healthy(&inspect).get("GET", "/healthz").await.0, 200);
        let (code, body) = healthy(&inspect).get("GET", "/livez").await;
        assert_eq!(code, 200);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["alive"], true);
        let note = body["notes"][0].as_str().unwrap();
        assert!(note.contains("100 seconds after the start"), "{note}");
    }

    #[tokio::test(start_paused = true)]
    async fn stuck_streams_fail_the_probes() {
        let inspect = Inspect::default();
        let stream = inspect.health_tracker().stream("things".to_owned());
        stream.attend(async {}).await;
        assert_eq!(healthy(&inspect).get("GET", "/healthz").await.0, 200);
        sleep(Duration::from_secs(100)).await;
        let (code, reason) = healthy(&inspect).get("GET", "/healthz").await;
        assert_eq!(code, 503);
        assert!(reason.contains("stuck for 100 seconds"), "{reason}");
        let (code, body) = healthy(&inspect).get("GET", "/livez").await;
        assert_eq!(code, 503);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["alive"], false);
        assert_eq!(body["reasons"][0]["check"], "streams");
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_does_not_end_with_a_listing() {
        let inspect = Inspect::default();
        inspect.health_tracker().begin(Duration::from_secs(70));
        inspect.health_tracker().ready();
        assert_eq!(healthy(&inspect).get("GET", "/readyz").await.0, 200);
        let stream = inspect.health_tracker().stream("things".to_owned());
        stream.unlisted();
        stream.failing("connection refused".to_owned());
        sleep(Duration::from_secs(600)).await;
        let (code, body) = healthy(&inspect).get("GET", "/readyz").await;
        assert_eq!(code, 200, "{body}");
        assert!(
            body.contains("not listed yet: connection refused"),
            "{body}"
        );
        inspect.set_stopping();
        assert_eq!(healthy(&inspect).get("GET", "/readyz").await.0, 503);
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_is_ready_when_everything_is_listed() {
        let inspect = Inspect::default();
        inspect.health_tracker().begin(Duration::from_secs(70));
        let checks = async || {
            let (code, body) = healthy(&inspect).get("GET", "/readyz").await;
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(body["ready"], code == 200, "{body}");
            let reasons = body["reasons"].as_array().unwrap().clone();
            let checks = reasons.iter().map(|it| it["check"].to_string());
            checks.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(checks().await, r#""discovery""#);
        inspect.health_tracker().ready();
        let stream = inspect.health_tracker().stream("things".to_owned());
        stream.unlisted();
        assert_eq!(checks().await, r#""streams""#);
        stream.listed();
        assert_eq!(checks().await, "");
        inspect.set_stopping();
        assert_eq!(checks().await, r#""running""#);
    }

    #[tokio::test(start_paused = true)]
    async fn metrics_are_served_in_the_requested_format() {
        let inspect = Inspect::default();
        let asking = healthy(&inspect);
        assert_eq!(asking.get("GET", "/metrics").await.0, 404, "not measured");
        inspect.set_metrics(Metrics::new());
        for (accept, expected) in [
            ("application/openmetrics-text", Format::OpenMetrics),
            ("*/*", Format::Prometheus),
        ] {
            let response = asking.ask("GET", "/metrics", accept).await;
            assert_eq!(response.status().as_u16(), 200);
            assert_eq!(response.headers()[CONTENT_TYPE], expected.content_type());
        }
        let (_, body) = asking.get("GET", "/metrics").await;
        assert!(body.contains("\nkopf_build_info{version="), "{body}");
    }
}
