//! Watches over WebSockets: each event is a message. The fabric8 client of Java opens watches this
//! way.

use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use futures::{FutureExt as _, SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, CONTENT_TYPE, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::BodyExt as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// Maximum size of a received message. Clients of watches have nothing to send.
const MAX_RECEIVED: usize = 64 * 1024;

/// A request to continue the connection as a WebSocket.
pub(super) struct Handshake {
    accept: Option<HeaderValue>,
    protocol: Option<HeaderValue>,
    upgrade: OnUpgrade,
}

impl Handshake {
    /// Returns the handshake of a request, or `None` for an ordinary request.
    pub(super) fn of<B>(request: &mut Request<B>) -> Option<Self> {
        let headers = request.headers();
        if request.version() != Version::HTTP_11
            || !has_token(headers, &CONNECTION, "upgrade")
            || !has_token(headers, &UPGRADE, "websocket")
        {
            return None;
        }
        let key = headers.get(SEC_WEBSOCKET_KEY);
        let accept = key
            .filter(|_| headers.contains_key(ORIGIN))
            .and_then(|key| HeaderValue::try_from(derive_accept_key(key.as_bytes())).ok());
        Some(Self {
            accept,
            protocol: headers.get(SEC_WEBSOCKET_PROTOCOL).cloned(),
            upgrade: hyper::upgrade::on(request),
        })
    }

    /// Returns `true` if a response is a stream of JSON events. Other responses are sent as they
    /// are, as by a real server.
    pub(super) fn applies_to<B: Body>(response: &Response<B>) -> bool {
        let content_type = response.headers().get(CONTENT_TYPE);
        response.status() == StatusCode::OK
            && response.body().size_hint().exact().is_none()
            && content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
    }

    /// Returns the response that switches protocols and the messages to be sent after it. A
    /// handshake without a key or an origin is rejected, as by a real server.
    pub(super) fn accept<B>(self, body: B) -> (Response<()>, Option<impl Future<Output = ()>>)
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let mut response = Response::new(());
        let Some(accept) = self.accept else {
            *response.status_mut() = StatusCode::FORBIDDEN;
            return (response, None);
        };
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        if let Some(protocol) = self.protocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        (response, Some(forward(self.upgrade, Box::pin(body))))
    }
}

/// Returns `true` if a header contains a token in its comma-separated lists.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|found| found.trim().eq_ignore_ascii_case(token))
}

/// Sends each line of a body as a message, until the body ends or the client leaves.
async fn forward<B>(upgrade: OnUpgrade, mut body: Pin<Box<B>>)
where
    B: Body<Data = Bytes>,
{
    let upgraded = match upgrade.await {
        Ok(upgraded) => TokioIo::new(upgraded),
        Err(error) => {
            tracing::debug!(%error, "cannot upgrade to a WebSocket");
            return;
        }
    };
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_RECEIVED))
        .max_frame_size(Some(MAX_RECEIVED));
    let socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
    let (mut sender, mut receiver) = socket.split();
    let mut unsent = BytesMut::new();
    loop {
        tokio::select! {
            received = receiver.next() => match received {
                // Pings are answered by the library; other messages are ignored.
                Some(Ok(message)) if !message.is_close() => {}
                _ => return,
            },
            frame = body.frame().map(|frame| frame.map(Result::ok)) => {
                let chunk = match frame {
                    Some(Some(frame)) => frame.into_data().unwrap_or_default(),
                    // The body has broken the connection.
                    Some(None) => return,
                    None => break,
                };
                unsent.extend_from_slice(&chunk);
                while let Some(end) = unsent.iter().position(|byte| *byte == b'\n') {
                    let line = unsent.split_to(end + 1).freeze();
                    if sender.feed(message(line)).await.is_err() {
                        return;
                    }
                }
                if sender.flush().await.is_err() {
                    return;
                }
            }
        }
    }
    if !unsent.is_empty() && sender.send(message(unsent.freeze())).await.is_err() {
        return;
    }
    // The client may be gone; there is nothing left to tell it.
    let _ = sender.close().await;
}

fn message(line: Bytes) -> Message {
    match Utf8Bytes::try_from(line.clone()) {
        Ok(text) => Message::Text(text),
        Err(_) => Message::Binary(line),
    }
}
