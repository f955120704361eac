//! Observation of requests: the verb, the resource, the response code and the latency of each one.
//!
//! A [`RequestObserver`] is given to a client by [`Client::with_observer`](crate::Client::with_observer).
//! It is called for the requests of the client itself and for those of its
//! [`kube`](crate::Client::kube) client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Response};
use tokio::time::Instant;
use tower::BoxError;
use tracing::field::Empty;
use tracing::{Instrument as _, Span, trace_span};

use crate::transport::ResponseBody;

/// The verb of a request, as in RBAC rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads one object, or a document that is not a resource.
    Get,
    /// Reads a page of objects.
    List,
    /// Opens a watch stream.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Patches an object.
    Patch,
    /// Deletes an object.
    Delete,
    /// Deletes all selected objects.
    DeleteCollection,
}

impl Verb {
    /// All verbs, in the order of their declaration.
    pub const ALL: [Self; 8] = [
        Self::Get,
        Self::List,
        Self::Watch,
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];

    /// Returns the name in RBAC rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// The verb and the resource of a request. Names of objects and namespaces are not a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTarget<'a> {
    /// The verb.
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The API version; empty for documents that are not resources, such as `/version`.
    pub version: &'a str,
    /// The plural name of the resource; empty for documents that are not resources.
    pub plural: &'a str,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The server has responded with this status code.
    Response(u16),
    /// There is no response: the connection has failed.
    Failed,
    /// The request was dropped before the response, usually because of a timeout.
    Cancelled,
}

/// Receives the beginning of every request of a client. It is called in the tasks that send the
/// requests, so it must not block.
pub trait RequestObserver: fmt::Debug + Send + Sync {
    /// Returns the receiver of the end of a request.
    fn begin(&self, target: RequestTarget<'_>) -> Arc<dyn RequestSeries>;
}

/// Receives the ends of requests with the same verb and resource.
pub trait RequestSeries: Send + Sync {
    /// Called once for every request. The latency is the time until the headers of the response.
    fn finished(&self, outcome: RequestOutcome, latency: Duration);
}

impl<'a> RequestTarget<'a> {
    /// Parses the method and the path with its query.
    pub(crate) fn parse(method: &Method, path: &'a str) -> Self {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let (group, version) = match (segments.next(), segments.next()) {
            (Some("api"), Some(version)) => ("", version),
            (Some("apis"), Some(group)) => (group, segments.next().unwrap_or_default()),
            _ => ("", ""),
        };
        let mut plural = segments.next().unwrap_or_default();
        let mut name = segments.next();
        // Namespaces are objects themselves, and prefixes of the paths of others.
        if plural == "namespaces"
            && let Some(nested) = segments.next()
            && !(group.is_empty() && is_part_of_namespace(nested, segments.clone().next()))
        {
            plural = nested;
            name = segments.next();
        }
        if version.is_empty() || plural.is_empty() {
            (plural, name) = ("", Some(""));
        }
        let is_resource = !plural.is_empty();
        Self {
            verb: verb(method, query, name.is_some()),
            group: if is_resource { group } else { "" },
            version: if is_resource { version } else { "" },
            plural,
        }
    }
}

/// Returns `true` for the subresources of namespaces.
fn is_part_of_namespace(segment: &str, next: Option<&str>) -> bool {
    next.is_none() && matches!(segment, "status" | "finalize")
}

fn verb(method: &Method, query: &str, has_name: bool) -> Verb {
    let is_watch = || {
        let mut parameters = query.split('&');
        parameters.any(|parameter| matches!(parameter, "watch=true" | "watch=1" | "watch"))
    };
    match (method.as_str(), has_name) {
        ("POST", _) => Verb::Create,
        ("PUT", _) => Verb::Update,
        ("PATCH", _) => Verb::Patch,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        _ if is_watch() => Verb::Watch,
        (_, true) => Verb::Get,
        (_, false) => Verb::List,
    }
}

/// Returns the span of a request, for traces: until the headers of the response. As the spans of the
/// engine, it costs a comparison of levels if it is not recorded.
pub(crate) fn request_span(method: &Method, path: &str) -> Span {
    trace_span!(
        target: "kopf_trace",
        "request",
        otel.kind = "client",
        http.request.method = method.as_str(),
        url.path = path.split('?').next(),
        http.response.status_code = Empty,
    )
}

/// Waits for a response in a span.
pub(crate) async fn traced(
    span: Span,
    response: impl Future<Output = Result<Response<ResponseBody>, BoxError>>,
) -> Result<Response<ResponseBody>, BoxError> {
    let response = response.instrument(span.clone()).await;
    if let Ok(response) = &response {
        span.record("http.response.status_code", response.status().as_u16());
    }
    response
}

/// Waits for a response, and reports it.
pub(crate) async fn observed(
    series: Arc<dyn RequestSeries>,
    response: impl Future<Output = Result<Response<ResponseBody>, BoxError>>,
) -> Result<Response<ResponseBody>, BoxError> {
    let mut observation = Observation {
        series,
        since: Instant::now(),
        outcome: RequestOutcome::Cancelled,
    };
    let response = response.await;
    observation.outcome = match &response {
        Ok(response) => RequestOutcome::Response(response.status().as_u16()),
        Err(_) => RequestOutcome::Failed,
    };
    response
}

/// A request under way. Reports its outcome when it is dropped.
struct Observation {
    series: Arc<dyn RequestSeries>,
    since: Instant,
    outcome: RequestOutcome,
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.series.finished(self.outcome, self.since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::script::{Reply, Script, ok, refusal};
    use kopf_core::settings::{Backoffs, Networking};
    use serde_json::json;

    #[test]
    fn targets_have_no_names_of_objects() {
        for (method, path, expected) in [
            ("GET", "/api/v1/pods", "list /v1/pods"),
            ("GET", "/api/v1/namespaces/ns/pods", "list /v1/pods"),
            (
                "GET",
                "/api/v1/namespaces/ns/pods?limit=5&watch=true",
                "watch /v1/pods",
            ),
            ("GET", "/api/v1/namespaces/ns/pods/a", "get /v1/pods"),
            ("GET", "/api/v1/namespaces/ns/pods/a/log", "get /v1/pods"),
            ("GET", "/api/v1/namespaces", "list /v1/namespaces"),
            ("GET", "/api/v1/namespaces/ns", "get /v1/namespaces"),
            (
                "PATCH",
                "/api/v1/namespaces/ns/status",
                "patch /v1/namespaces",
            ),
            (
                "PATCH",
                "/apis/kopf.dev/v1/namespaces/ns/kopfexamples/a/status",
                "patch kopf.dev/v1/kopfexamples",
            ),
            (
                "POST",
                "/apis/kopf.dev/v1/things",
                "create kopf.dev/v1/things",
            ),
            (
                "PUT",
                "/apis/kopf.dev/v1/things/a",
                "update kopf.dev/v1/things",
            ),
            ("DELETE", "/apis/g/v1/things/a", "delete g/v1/things"),
            (
                "DELETE",
                "/apis/g/v1/things",
                "deletecollection g/v1/things",
            ),
            ("GET", "/version", "get //"),
            ("GET", "/apis", "get //"),
            ("GET", "/apis/kopf.dev/v1", "get //"),
            ("GET", "/any/thing/else", "get //"),
            ("GET", "", "get //"),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let target = RequestTarget::parse(&method, path);
            let RequestTarget {
                verb,
                group,
                version,
                plural,
            } = target;
            let parsed = format!("{} {group}/{version}/{plural}", verb.as_str());
            assert_eq!(parsed, expected, "{path}");
        }
    }

    /// Records all requests.
    #[derive(Debug, Default, Clone)]
    struct Notes(Arc<Mutex<Vec<String>>>);

    struct Series(Notes, String);

    impl RequestObserver for Notes {
        fn begin(&self, target: RequestTarget<'_>) -> Arc<dyn RequestSeries> {
            let what = format!("{} {}", target.verb.as_str(), target.plural);
            Arc::new(Series(self.clone(), what))
        }
    }

    impl RequestSeries for Series {
        fn finished(&self, outcome: RequestOutcome, latency: Duration) {
            let seconds = latency.as_secs();
            let note = format!("{} {outcome:?} {seconds}", self.1);
            self.0.0.lock().unwrap().push(note);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_attempt_is_observed() {
        let replies = [Reply::Never, refusal(503), ok(&json!({})), Reply::Reset];
        let (client, _) = Script::new(replies);
        let mut networking = Networking::default();
        networking.request_timeout = Some(Duration::from_secs(7));
        networking.error_backoffs = Backoffs::finite([Duration::ZERO; 3]);
        let notes = Notes::default();
        let client = client
            .with_networking(&networking)
            .with_observer(Arc::new(notes.clone()));
        client.get_json("/api/v1/pods/x").await.unwrap();
        let kube = client.kube();
        let request = http::Request::get("/version").body(Vec::new()).unwrap();
        assert!(kube.request_text(request).await.is_err());
        assert_eq!(
            *notes.0.lock().unwrap(),
            [
                "get pods Cancelled 7",
                "get pods Response(503) 0",
                "get pods Response(200) 0",
                "get  Failed 0",
            ]
        );
    }
}
