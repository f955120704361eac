//! An in-process client of the manifest loader: no socket, no credentials.

use std::fmt::{self, Write as _};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower::Service as _;

use crate::Service;

/// A rejection by the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) code: u16,
    pub(super) reason: String,
    pub(super) message: String,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

/// A client with the requests that the loader needs.
#[derive(Debug, Clone)]
pub(super) struct Client {
    service: Service,
}

impl Client {
    pub(super) fn new(service: Service) -> Self {
        Self { service }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, Rejection> {
        self.send(Method::GET, path, "", Bytes::new()).await
    }

    pub(super) async fn create(&self, path: &str, object: &Value) -> Result<Value, Rejection> {
        let body = Bytes::from(object.to_string());
        self.send(Method::POST, path, "application/json", body)
            .await
    }

    pub(super) async fn merge(&self, path: &str, change: &Value) -> Result<Value, Rejection> {
        let body = Bytes::from(change.to_string());
        self.send(Method::PATCH, path, "application/merge-patch+json", body)
            .await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Value, Rejection> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::USER_AGENT, "kopf")
            .header(header::ACCEPT, "application/json");
        if !content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| unexpected(&format!("invalid path {path:?}: {error}")))?;
        // A sandbox is always ready, so `poll_ready` is not needed.
        let response = self.service.clone().call(request).await;
        let response = response.map_err(|error| unexpected(&error.to_string()))?;
        let status = response.status();
        let body = response.into_body().collect().await;
        let body =
            body.map_err(|error| unexpected(&format!("cannot read the response: {error}")))?;
        let value = serde_json::from_slice(&body.to_bytes());
        if status.is_success() {
            return value
                .map_err(|error| unexpected(&format!("the response is not JSON: {error}")));
        }
        Err(rejection(status, &value.unwrap_or_default()))
    }
}

/// Reads a `Status` of the Kubernetes API.
fn rejection(status: StatusCode, body: &Value) -> Rejection {
    let text = |key: &str| {
        body.get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut rejection = Rejection {
        code: status.as_u16(),
        reason: text("reason"),
        message: text("message"),
    };
    if rejection.reason.is_empty() {
        status
            .canonical_reason()
            .unwrap_or("error")
            .clone_into(&mut rejection.reason);
    }
    rejection
}

fn unexpected(message: &str) -> Rejection {
    Rejection {
        code: 0,
        reason: "Unexpected".to_owned(),
        message: message.to_owned(),
    }
}

/// Escapes all characters that are special in paths.
#[doc(hidden)] // For other clients in process.
pub fn segment(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_escaped() {
        assert_eq!(segment("kube-system"), "kube-system");
        assert_eq!(segment("../x?y=ö"), "..%2Fx%3Fy%3D%C3%B6");
    }

    #[test]
    fn rejection_has_a_reason_even_without_a_body() {
        let rejection = rejection(StatusCode::NOT_FOUND, &Value::Null);
        assert_eq!(rejection.to_string(), "404 Not Found: ");
    }
}
