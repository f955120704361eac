//! Fixtures: raw requests, complete responses, watches line by line.

pub(crate) mod tls;

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Full};
use kopf_sandbox::fault::ConnectionBroken;
use kopf_sandbox::{Body, BodyError, Sandbox, Service};
use serde_json::{Value, json};
use tower::ServiceExt as _;

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const MERGE: &str = "application/merge-patch+json";

/// Timeout of waiting in tests. Only a defect takes that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Fails the test after [`PATIENCE`] instead of hanging.
pub(crate) async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(PATIENCE, work).await;
    outcome.unwrap_or_else(|_| panic!("{what}: timed out"))
}

/// Returns a config map with one entry in its data.
pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name },
        "data": { "value": value },
    })
}

/// Returns a CRD of namespaced objects with the status subresource and a schema that keeps all
/// fields.
pub(crate) fn definition(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.test.dev") },
        "spec": {
            "group": "test.dev",
            "scope": "Namespaced",
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The in-process API of a sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    service: Service,
}

impl Api {
    pub(crate) fn of(sandbox: &Sandbox) -> Self {
        Self {
            service: sandbox.service(),
        }
    }

    /// Sends a request. Returns the head and the unread body of the response.
    pub(crate) async fn open(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<http::Response<Body>, ConnectionBroken> {
        self.service.clone().oneshot(request).await
    }

    /// Sends a request. Fails if the connection breaks.
    pub(crate) async fn try_send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<ApiResponse, ConnectionBroken> {
        let (parts, body) = self.open(request).await?.into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        Ok(ApiResponse {
            code: parts.status.as_u16(),
            headers: parts.headers,
            bytes,
        })
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> ApiResponse {
        self.try_send(request).await.expect("no fault is injected")
    }

    pub(crate) async fn get(&self, path: &str) -> ApiResponse {
        self.send(request(Method::GET, path, None, "")).await
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> ApiResponse {
        self.send(with_json(Method::POST, path, object)).await
    }

    pub(crate) async fn update(&self, path: &str, object: &Value) -> ApiResponse {
        self.send(with_json(Method::PUT, path, object)).await
    }

    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> ApiResponse {
        let body = patch.to_string();
        self.send(request(Method::PATCH, path, Some(MERGE), body))
            .await
    }

    pub(crate) async fn delete(&self, path: &str) -> ApiResponse {
        self.send(request(Method::DELETE, path, None, "")).await
    }

    /// Opens a watch. The path can have a query.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{separator}watch=true");
        let response = self.open(request(Method::GET, &path, None, "")).await;
        let response = response.expect("no fault is injected");
        assert_eq!(response.status(), 200, "{path}");
        Watch {
            body: response.into_body(),
            unread: Vec::new(),
        }
    }

    /// Returns the resource version of a list.
    pub(crate) async fn version(&self, path: &str) -> String {
        self.get(path).await.expect(200).version()
    }

    /// Waits until the object does not exist.
    pub(crate) async fn gone(&self, path: &str) {
        in_time(path, async {
            while self.get(path).await.code != 404 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

/// Returns a request with or without a content type.
pub(crate) fn request(
    method: Method,
    path: &str,
    content_type: Option<&str>,
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    let mut builder = Request::builder().method(method).uri(path);
    if let Some(content_type) = content_type {
        builder = builder.header("content-type", content_type);
    }
    builder.body(Full::new(body.into())).expect("a request")
}

pub(crate) fn with_json(method: Method, path: &str, body: &Value) -> Request<Full<Bytes>> {
    request(method, path, Some("application/json"), body.to_string())
}

pub(crate) fn get(path: &str) -> Request<Full<Bytes>> {
    request(Method::GET, path, None, "")
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl ApiResponse {
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{}", self.text());
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_slice(&self.bytes) {
            Ok(value) => value,
            Err(error) => panic!("{error} in {}", self.text()),
        }
    }

    pub(crate) fn version(&self) -> String {
        let object = self.json();
        let version = object["metadata"]["resourceVersion"].as_str();
        version.unwrap_or_default().to_owned()
    }
}

/// An open watch over any transport.
#[derive(Debug)]
pub(crate) struct Watch<B = Body> {
    pub(crate) body: B,
    pub(crate) unread: Vec<u8>,
}

impl<B> Watch<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    /// Returns the next line, `None` at the end of the stream, or an error if it breaks.
    pub(crate) async fn line(&mut self) -> Result<Option<String>, BodyError> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let rest = self.unread.split_off(end + 1);
                let line = std::mem::replace(&mut self.unread, rest);
                return Ok(Some(String::from_utf8(line)?));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    self.unread.extend_from_slice(&data);
                }
            }
        }
    }

    /// Returns the next event. Panics if there is none.
    pub(crate) async fn event(&mut self) -> Event {
        let line = in_time("an event", self.line()).await;
        let line = line.expect("an unbroken stream");
        Event::of(&line.expect("an event before the end of the stream"))
    }

    /// Returns all events up to the end of the stream. Panics if it breaks.
    pub(crate) async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(line) = in_time("the rest", self.line()).await.expect("no break") {
            events.push(Event::of(&line));
        }
        events
    }

    /// Reads the end of the stream. Returns `true` if it breaks, `false` if it ends in order.
    pub(crate) async fn breaks(&mut self) -> bool {
        match in_time("the end of the stream", self.line()).await {
            Err(_) => true,
            Ok(None) => false,
            Ok(Some(line)) => panic!("not the end: {line}"),
        }
    }
}

/// An event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) object: Value,
}

impl Event {
    fn of(line: &str) -> Self {
        let mut event: Value = serde_json::from_str(line).expect("a line of JSON");
        Self {
            kind: event["type"].as_str().unwrap_or_default().to_owned(),
            object: event["object"].take(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn version(&self) -> u64 {
        let version = self.object["metadata"]["resourceVersion"].as_str();
        version
            .and_then(|text| text.parse().ok())
            .expect("a version")
    }

    /// Returns the type and the name, for comparisons.
    pub(crate) fn brief(&self) -> (&str, &str) {
        (&self.kind, self.name())
    }
}
