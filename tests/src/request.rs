//! Raw requests with any method, header and body.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use kube::client::Body;
use serde_json::Value;

use crate::{ApiResponse, PATIENCE, Watch};

/// The types of patches, by content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// A list of operations (RFC 6902).
    Json,
    /// A partial object where null removes (RFC 7386).
    Merge,
    /// A partial object where lists merge by their keys; built-in kinds only.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchType {
    /// Returns the value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// A request builder; see [`Api::request`](crate::Api::request).
#[derive(Debug)]
#[must_use = "a request does nothing until `.send().await` or `.watch().await`"]
pub struct RequestBuilder {
    client: Client,
    method: Method,
    path: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
}

/// A client with an implementation of `Debug`, which kube's client lacks.
struct Client(kube::Client);

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl RequestBuilder {
    pub(crate) fn new(client: &kube::Client, method: Method, path: &str) -> Self {
        Self {
            client: Client(client.clone()),
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = name.parse().expect("tests give valid header names");
        let value = value.parse().expect("tests give valid header values");
        self.headers.push((name, value));
        self
    }

    /// Sets the body without a content type; see also [`json`](Self::json).
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a JSON body and its content type.
    pub fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json")
            .body(body.to_string())
    }

    /// Sends the request and reads the whole response.
    pub async fn send(self) -> ApiResponse {
        let asked = format!("{} {}", self.method, self.path);
        let work = async {
            let response = self.start().await;
            let (parts, body) = response.into_parts();
            let bytes = body
                .collect_bytes()
                .await
                .unwrap_or_else(|error| panic!("{asked}: the response was interrupted: {error:?}"));
            ApiResponse {
                code: parts.status.as_u16(),
                headers: parts.headers,
                json: serde_json::from_slice(&bytes).unwrap_or_default(),
                bytes,
                asked: asked.clone(),
            }
        };
        tokio::time::timeout(PATIENCE, work)
            .await
            .unwrap_or_else(|_| panic!("{asked}: no complete response in {PATIENCE:?}"))
    }

    /// Sends the request and returns the response as a stream of watch events.
    ///
    /// Does not add the `watch` parameter. Fails the test unless the status is 200.
    pub async fn watch(self) -> Watch {
        let asked = format!("{} {}", self.method, self.path);
        let response = tokio::time::timeout(PATIENCE, self.start())
            .await
            .unwrap_or_else(|_| panic!("{asked}: no response in {PATIENCE:?}"));
        Watch::new(response, asked).await
    }

    async fn start(self) -> http::Response<Body> {
        let asked = format!("{} {}", self.method, self.path);
        let mut request = http::Request::builder()
            .method(self.method)
            .uri(&self.path)
            .body(Body::from(self.body))
            .unwrap_or_else(|error| panic!("{asked}: not a valid request: {error}"));
        request
            .headers_mut()
            .extend(self.headers.into_iter().map(|(n, v)| (Some(n), v)));
        self.client
            .0
            .send(request)
            .await
            .unwrap_or_else(|error| panic!("{asked}: no response: {error:?}"))
    }
}
