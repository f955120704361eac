//! The handshake of WebSockets: of commands in containers, and of watches, which the fabric8 client
//! of Java opens this way.

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_TYPE, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::upgrade::OnUpgrade;
use kopf_sandbox_api::access::protocols;
use kopf_sandbox_api::body::ExecOutput;
use kopf_sandbox_api::body::Unending;
use kopf_sandbox_api::request::upgrade::is_upgrade;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::messages::{forward, send_output};

/// A request to continue the connection as a WebSocket.
pub(super) struct Handshake {
    terms: Result<Terms, Rejection>,
    upgrade: OnUpgrade,
}

/// The headers of the response to a valid handshake.
struct Terms {
    accept: HeaderValue,
    protocol: Option<HeaderValue>,
}

/// The reason why a handshake is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rejection {
    Key,
    Version,
    Origin,
    Protocols,
}

impl Handshake {
    /// Returns the handshake of a request, or `None` for an ordinary request.
    pub(super) fn of<B>(request: &mut Request<B>) -> Option<Self> {
        if request.version() != Version::HTTP_11 || !is_upgrade(request.headers()) {
            return None;
        }
        Some(Self {
            terms: terms(request.headers(), Purpose::of(request.uri().path())),
            upgrade: hyper::upgrade::on(request),
        })
    }

    /// Returns `true` if a response is a stream of JSON events. Other responses are sent as they
    /// are, as by a real server.
    pub(super) fn applies_to<B>(response: &Response<B>) -> bool {
        let content_type = response.headers().get(CONTENT_TYPE);
        response.status() == StatusCode::OK
            && response.extensions().get::<Unending>().is_some()
            && content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
    }

    /// Returns the response that switches protocols and the messages to be sent after it, or the
    /// response that rejects an invalid handshake.
    pub(super) fn accept<B>(self, body: B) -> (Response<Bytes>, Option<impl Future<Output = ()>>)
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let terms = match self.terms {
            Ok(terms) => terms,
            Err(rejection) => return (rejection.response(), None),
        };
        (
            terms.response(),
            Some(forward(self.upgrade, Box::pin(body))),
        )
    }

    /// Returns the response to a command and the messages with its output.
    pub(super) fn run(
        self,
        output: ExecOutput,
    ) -> (Response<Bytes>, Option<impl Future<Output = ()>>) {
        match self.terms {
            Ok(terms) => (terms.response(), Some(send_output(self.upgrade, output))),
            Err(rejection) => (rejection.response(), None),
        }
    }
}

impl Terms {
    /// Returns the response that switches protocols.
    fn response(self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        if let Some(protocol) = self.protocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        response
    }
}

impl Rejection {
    /// Returns the response of a real server, which closes the connection after it.
    fn response(self) -> Response<Bytes> {
        let (code, text) = match self {
            Self::Key => (StatusCode::BAD_REQUEST, "mismatch challenge/response"),
            Self::Version => (StatusCode::BAD_REQUEST, "missing or bad WebSocket Version"),
            Self::Origin => (StatusCode::FORBIDDEN, ""),
            Self::Protocols => (StatusCode::BAD_REQUEST, ""),
        };
        let mut response = Response::new(Bytes::from_static(text.as_bytes()));
        *response.status_mut() = code;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if self == Self::Version {
            headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        response
    }
}

/// The use of a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Watch,
    /// A command in a container.
    Exec,
}

impl Purpose {
    fn of(path: &str) -> Self {
        if path.trim_end_matches('/').ends_with("/exec") {
            Self::Exec
        } else {
            Self::Watch
        }
    }
}

/// Protocols of commands: messages begin with the number of their channel.
const CHANNELS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// Checks the headers of a handshake, in the order of a real server.
fn terms(headers: &HeaderMap, purpose: Purpose) -> Result<Terms, Rejection> {
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let key = key.filter(|key| !key.is_empty()).ok_or(Rejection::Key)?;
    let accept = HeaderValue::try_from(derive_accept_key(key)).map_err(|_| Rejection::Key)?;
    if headers
        .get(SEC_WEBSOCKET_VERSION)
        .map(HeaderValue::as_bytes)
        != Some(b"13")
    {
        return Err(Rejection::Version);
    }
    if purpose == Purpose::Exec {
        let offered = protocols(headers);
        let known = offered.into_iter().find(|it| CHANNELS.contains(it));
        let protocol = known.ok_or(Rejection::Protocols)?;
        let protocol = HeaderValue::from_str(protocol).map_err(|_| Rejection::Protocols)?;
        let protocol = Some(protocol);
        return Ok(Terms { accept, protocol });
    }
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    if !origin.is_some_and(is_origin) {
        return Err(Rejection::Origin);
    }
    let protocol = match protocols(headers).as_slice() {
        [] => None,
        [one] => Some(HeaderValue::from_str(one).map_err(|_| Rejection::Protocols)?),
        // A server must choose one, and real servers have no preference for watches.
        _ => return Err(Rejection::Protocols),
    };
    Ok(Terms { accept, protocol })
}

/// Returns `true` for absolute URLs and paths. Browsers send `null` for opaque origins.
fn is_origin(origin: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|it| it.is_ascii_alphanumeric() || "+-.".contains(it))
    };
    let scheme = origin.split_once(':').map(|(scheme, _)| scheme);
    origin.starts_with('/') || scheme.is_some_and(is_scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_urls() {
        for good in [
            "https://localhost",
            "http://x:8080",
            "chrome-extension://x",
            "/",
        ] {
            assert!(is_origin(good), "{good}");
        }
        for bad in ["", "null", "localhost", "::x", "1http://x"] {
            assert!(!is_origin(bad), "{bad}");
        }
    }
}
