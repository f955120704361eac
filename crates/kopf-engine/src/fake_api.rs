//! A small in-process API server for tests: a function returns the responses.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kopf_client::Client;
use kopf_client::vault::Credentials;
use kopf_core::resource::Resource;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::Service;

/// A parsed request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FakeRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

impl FakeRequest {
    pub(crate) fn is_watch(&self) -> bool {
        self.query.contains("watch=true")
    }
}

/// A response.
pub(crate) enum FakeResponse {
    Json(u16, Value),
    /// Lines that are sent until the sender is dropped.
    Lines(mpsc::UnboundedReceiver<Value>),
    /// No response.
    Never,
}

impl FakeResponse {
    /// Returns an error response.
    pub(crate) fn status(code: u16) -> Self {
        let message = format!("this is {code}");
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                            "code": code, "reason": "Scripted", "message": message});
        Self::Json(code, status)
    }

    /// Returns a list of objects.
    pub(crate) fn list(kind: &str, items: &[Value]) -> Self {
        let list = json!({"apiVersion": "v1", "kind": format!("{kind}List"),
                          "metadata": {"resourceVersion": "100"}, "items": items});
        Self::Json(200, list)
    }
}

/// Returns a resource for tests: namespaced, with all verbs.
pub(crate) fn kind(group: &str, plural: &str) -> Resource {
    let verbs = [
        "create", "delete", "get", "list", "patch", "update", "watch",
    ];
    Resource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        plural: plural.to_owned(),
        kind: format!("Kind-of-{plural}"),
        singular: plural.trim_end_matches('s').to_owned(),
        verbs: verbs.map(str::to_owned).into(),
        namespaced: true,
        preferred: true,
        ..Resource::default()
    }
}

/// Returns the response to a discovery request of a server with these resources.
pub(crate) fn discover(request: &FakeRequest, kinds: &[Resource]) -> Option<FakeResponse> {
    let groups: BTreeSet<&str> = kinds.iter().map(|kind| &*kind.group).collect();
    let response = match request.path.as_str() {
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "/apis" => {
            let groups = groups
                .iter()
                .filter(|group| !group.is_empty())
                .map(|group| {
                    let version = json!({"groupVersion": format!("{group}/v1"), "version": "v1"});
                    json!({"name": group, "versions": [version], "preferredVersion": version})
                });
            json!({"kind": "APIGroupList", "apiVersion": "v1",
                   "groups": groups.collect::<Vec<_>>()})
        }
        path => {
            let group = match path.strip_prefix("/apis/") {
                Some(rest) => rest.strip_suffix("/v1")?,
                None => path
                    .strip_prefix("/api/v1")
                    .filter(|rest| rest.is_empty())?,
            };
            if !group.is_empty() && !groups.contains(group) {
                return Some(FakeResponse::status(404));
            }
            let kinds = kinds.iter().filter(|kind| kind.group == group).map(|kind| {
                json!({"name": kind.plural, "singularName": kind.singular, "kind": kind.kind,
                       "namespaced": kind.namespaced, "verbs": kind.verbs})
            });
            json!({"kind": "APIResourceList", "apiVersion": "v1",
                   "groupVersion": format!("{group}/v1").trim_start_matches('/'),
                   "resources": kinds.collect::<Vec<_>>()})
        }
    };
    Some(FakeResponse::Json(200, response))
}

/// The requests so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<FakeRequest>>>);

impl Log {
    pub(crate) fn all(&self) -> Vec<FakeRequest> {
        self.0.lock().unwrap().clone()
    }

    /// Returns the number of requests for this path, without watches.
    pub(crate) fn count(&self, path: &str) -> usize {
        let requests = self.all();
        requests
            .iter()
            .filter(|request| request.path == path && !request.is_watch())
            .count()
    }
}

/// Returns a client of a server with this function, and the record of its requests.
pub(crate) fn serve(
    respond: impl Fn(&FakeRequest) -> FakeResponse + Send + Sync + 'static,
) -> (Client, Log) {
    let log = Log::default();
    let server = Server {
        respond: Arc::new(respond),
        log: log.clone(),
    };
    (Client::from_service(server, "credentials"), log)
}

/// Returns the credentials of the same server, as the result of a login.
pub(crate) fn credentials(
    respond: impl Fn(&FakeRequest) -> FakeResponse + Send + Sync + 'static,
) -> (Credentials, Log) {
    let log = Log::default();
    let server = Server {
        respond: Arc::new(respond),
        log: log.clone(),
    };
    (Credentials::from_service(server, "credentials"), log)
}

#[derive(Clone)]
struct Server {
    respond: Arc<dyn Fn(&FakeRequest) -> FakeResponse + Send + Sync>,
    log: Log,
}

impl<B> Service<Request<B>> for Server
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Debug,
{
    type Response = Response<UnsyncBoxBody<Bytes, Infallible>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            Ok(server.respond(&parts, &body).await)
        })
    }
}

impl Server {
    async fn respond(
        &self,
        parts: &Parts,
        body: &[u8],
    ) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
        let request = FakeRequest {
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            body: serde_json::from_slice(body).unwrap_or_default(),
        };
        self.log.0.lock().unwrap().push(request.clone());
        let (code, body) = match (self.respond)(&request) {
            FakeResponse::Json(code, value) => (code, Full::from(value.to_string()).boxed_unsync()),
            FakeResponse::Lines(lines) => {
                let frames = futures::stream::unfold(lines, |mut lines| async move {
                    let line: Value = lines.recv().await?;
                    Some((Frame::data(Bytes::from(format!("{line}\n"))), lines))
                });
                (200, StreamBody::new(frames.map(Ok)).boxed_unsync())
            }
            FakeResponse::Never => std::future::pending().await,
        };
        Response::builder()
            .status(code)
            .header("content-type", "application/json")
            .body(body)
            .unwrap()
    }
}
