//! Requests to the sandbox in this very process: no socket, no credentials.

use std::fmt::{self, Write as _};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower::{Service, ServiceExt as _};

/// A service that answers requests of the Kubernetes API. It exists so that the bounds are written
/// only once.
pub(crate) trait Api: Clone {
    type Body: Body<Data = Bytes, Error: fmt::Display> + Unpin;

    async fn call(self, request: Request<Full<Bytes>>) -> Result<Response<Self::Body>, Refusal>;
}

impl<S, B> Api for S
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error: fmt::Display> + Clone,
    B: Body<Data = Bytes, Error: fmt::Display> + Unpin,
{
    type Body = B;

    async fn call(self, request: Request<Full<Bytes>>) -> Result<Response<B>, Refusal> {
        self.oneshot(request)
            .await
            .map_err(|error| unexpected(&error.to_string()))
    }
}

/// What the server says instead of doing what it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl std::error::Error for Refusal {}

/// The few ways in which this command talks to the API.
#[derive(Debug, Clone)]
pub(crate) struct Client<A> {
    api: A,
}

impl<A: Api> Client<A> {
    pub(crate) fn new(api: A) -> Self {
        Self { api }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.send(Method::GET, path, "", Bytes::new()).await
    }

    /// What kubectl shows: the server makes the rows and columns.
    pub(crate) async fn get_table(&self, path: &str) -> Result<Value, Refusal> {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        collect(
            self.raw(Method::GET, path, accept, "", Bytes::new())
                .await?,
        )
        .await
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value, Refusal> {
        let body = Bytes::from(object.to_string());
        self.send(Method::POST, path, "application/json", body)
            .await
    }

    pub(crate) async fn merge(&self, path: &str, change: &Value) -> Result<Value, Refusal> {
        let body = Bytes::from(change.to_string());
        self.send(Method::PATCH, path, "application/merge-patch+json", body)
            .await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, Refusal> {
        self.send(Method::DELETE, path, "", Bytes::new()).await
    }

    /// The events of a watch, one by one.
    pub(crate) async fn watch(&self, path: &str) -> Result<Events<A::Body>, Refusal> {
        let accept = "application/json";
        let response = self
            .raw(Method::GET, path, accept, "", Bytes::new())
            .await?;
        if !response.status().is_success() {
            return Err(collect(response)
                .await
                .err()
                .unwrap_or_else(|| unexpected("the watch is neither accepted nor refused")));
        }
        Ok(Events {
            body: response.into_body(),
            rest: Vec::new(),
        })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> Result<Value, Refusal> {
        collect(
            self.raw(method, path, "application/json", kind, body)
                .await?,
        )
        .await
    }

    async fn raw(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Response<A::Body>, Refusal> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::USER_AGENT, "kopf")
            .header(header::ACCEPT, accept);
        if !content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| unexpected(&format!("the path {path:?} is not possible: {error}")))?;
        self.api.clone().call(request).await
    }
}

async fn collect<B>(response: Response<B>) -> Result<Value, Refusal>
where
    B: Body<Data = Bytes, Error: fmt::Display>,
{
    let status = response.status();
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| unexpected(&format!("the answer is broken: {error}")))?;
    let value = serde_json::from_slice(&body.to_bytes());
    if status.is_success() {
        return value.map_err(|error| unexpected(&format!("the answer is not JSON: {error}")));
    }
    Err(refusal(status, &value.unwrap_or_default()))
}

/// Reads a `Status` of the Kubernetes API.
fn refusal(status: StatusCode, body: &Value) -> Refusal {
    let text = |key: &str| {
        body.get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut refusal = Refusal {
        code: status.as_u16(),
        reason: text("reason"),
        message: text("message"),
    };
    if refusal.reason.is_empty() {
        status
            .canonical_reason()
            .unwrap_or("error")
            .clone_into(&mut refusal.reason);
    }
    refusal
}

fn unexpected(message: &str) -> Refusal {
    Refusal {
        code: 0,
        reason: "Unexpected".to_owned(),
        message: message.to_owned(),
    }
}

/// A part of a path with everything escaped that has a meaning in paths.
pub(crate) fn segment(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
            escaped.push(char::from(byte));
        } else {
            // Writing into a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// A watch: a stream of JSON documents, one per line.
#[derive(Debug)]
pub(crate) struct Events<B> {
    body: B,
    rest: Vec<u8>,
}

impl<B: Body<Data = Bytes> + Unpin> Events<B> {
    /// The next event, or nothing when the server ends the watch.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if let Ok(event) = serde_json::from_slice(&line) {
                    return Some(event);
                }
                continue;
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_cannot_leave_its_place() {
        assert_eq!(segment("kube-system"), "kube-system");
        assert_eq!(segment("../x?y=ö"), "..%2Fx%3Fy%3D%C3%B6");
    }

    #[test]
    fn a_refusal_has_a_reason_even_without_a_body() {
        let refusal = refusal(StatusCode::NOT_FOUND, &Value::Null);
        assert_eq!(refusal.to_string(), "404 Not Found: ");
    }
}
