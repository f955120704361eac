//! Requests and responses: checks of requests, and their reviews by the operator.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::{CONNECTION, CONTENT_ENCODING, EXPECT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version};
use http_body::Body;
use http_body_util::Full;
use kopf_core::admission::{Incoming, ParseError, Serving, Unreadable, parse, parse_in_order};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tracing::{debug, error, warn};

use super::Route;
use super::activity::Activity;
use super::body::{ReadBody, discard, read, unfold};
use super::headers::headers;
use super::memory::{Memory, Pool};
use super::rejection::{Rejection, json};
use crate::Limits;

/// State shared by all connections of a server.
pub(crate) struct Responder {
    operator: Arc<dyn Serving>,
    route: Route,
    limits: Limits,
    /// Memory for reviews.
    memory: Arc<Pool>,
    /// Permits for concurrent reviews.
    permits: Semaphore,
}

impl Responder {
    pub(crate) fn new(operator: Arc<dyn Serving>, route: Route, limits: Limits) -> Self {
        let permits = limits.reviews.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            operator,
            route,
            memory: Arc::new(Pool::new(&limits)),
            permits: Semaphore::new(permits),
            limits,
        }
    }
}

/// State of one connection.
pub(super) struct Session {
    responder: Arc<Responder>,
    activity: Arc<Activity>,
    memory: Memory,
    /// Verified certificate of the client.
    peer: Option<Value>,
    /// Notified when the certificate of the server is replaced.
    retired: watch::Receiver<()>,
}

impl Session {
    pub(super) fn new(
        responder: Arc<Responder>,
        activity: Arc<Activity>,
        peer: Option<Value>,
        retired: watch::Receiver<()>,
    ) -> Self {
        Self {
            memory: Memory::new(Arc::clone(&responder.memory), Arc::clone(&activity)),
            responder,
            activity,
            peer,
            retired,
        }
    }

    /// Responds to a request of any kind.
    pub(super) async fn respond<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        self.activity.asked();
        let (head, mut body) = request.into_parts();
        let is_http2 = head.version == Version::HTTP_2;
        let mut response = match self.review(&head, &mut body).await {
            Ok(content) => json(content),
            Err(rejection) => {
                report(&head, &rejection);
                let is_sending = !is_waiting(&head.headers) && !body.is_end_stream();
                if rejection.is_early() && is_sending {
                    discard(&mut body, &self.responder.limits).await;
                }
                rejection.response()
            }
        };
        // Closing the connection at once would lose a request in flight. HTTP/2 has its own way.
        if !is_http2 && self.retired.has_changed().unwrap_or(true) {
            let headers = response.headers_mut();
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn review<B>(&self, head: &Parts, body: &mut B) -> Result<Vec<u8>, Rejection>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let responder = &*self.responder;
        let limits = &responder.limits;
        let webhook = responder.route.webhook(head.uri.path())?;
        if head.method != Method::POST {
            return Err(Rejection::Method);
        }
        check_encoding(&head.headers)?;
        if is_waiting(&head.headers) && body.size_hint().lower() > limits.body as u64 {
            let limit = limits.body;
            return Err(Rejection::unreadable(Unreadable::TooLarge { limit }, &[]));
        }
        let content = read(body, &self.memory, limits).await?;
        let guard = self.activity.review();
        let _unfolded = unfold(&content, &self.memory, limits).await?;
        let reviewed = timeout(limits.review_time, self.ask(head, webhook, content));
        let reviewed = reviewed
            .await
            .map_err(|_| Rejection::Overdue(limits.review_time))??;
        let response = serde_json::to_vec(&reviewed).map_err(Rejection::Serialization)?;
        guard.succeeded();
        Ok(response)
    }

    async fn ask(
        &self,
        head: &Parts,
        webhook: Option<String>,
        content: ReadBody,
    ) -> Result<Value, Rejection> {
        let responder = &*self.responder;
        // The semaphore is never closed. Bodies are not parsed before there is a permit.
        let permit = responder.permits.acquire().await;
        let _permit = permit.map_err(|_| Rejection::Busy)?;
        let parsed = if responder.operator.keeps_key_order() {
            parse_in_order(&content.bytes)
        } else {
            parse(&content.bytes).map(|review| (review, None))
        };
        let (review, order) = parsed.map_err(|error| match error {
            ParseError::TooDeep(_) => Rejection::unreadable(Unreadable::TooDeep, &content.bytes),
            error => Rejection::Json(error),
        })?;
        // Frees its memory for other requests.
        drop(content);
        let mut incoming = Incoming::new(review);
        incoming.order = order;
        incoming.webhook = webhook;
        incoming.headers = headers(head);
        incoming.sslpeer.clone_from(&self.peer);
        // The engine catches panics of handlers; other implementations of `Serving` may not.
        let review = AssertUnwindSafe(responder.operator.review(incoming)).catch_unwind();
        Ok(review.await.map_err(|_| Rejection::Panic)??)
    }
}

/// Returns `true` if the client does not send the body before it gets an interim response.
fn is_waiting(headers: &HeaderMap) -> bool {
    headers.contains_key(EXPECT)
}

/// Rejects compressed bodies. The content type is not checked: `curl -d` sends JSON as a form.
fn check_encoding(headers: &HeaderMap) -> Result<(), Rejection> {
    if let Some(given) = headers.get(CONTENT_ENCODING)
        && !given.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        let given = String::from_utf8_lossy(given.as_bytes()).into_owned();
        return Err(Rejection::ContentEncoding(given));
    }
    Ok(())
}

/// Logs a rejection. Invalid requests are logged at the debug level only: any client can send them.
fn report(head: &Parts, rejection: &Rejection) {
    let path = head.uri.path();
    match rejection {
        Rejection::Panic | Rejection::Serialization(_) => {
            error!("A review at {path} failed: {rejection}");
        }
        Rejection::Unreadable {
            reason,
            head: Some(head),
        } => {
            warn!("Denying the review {head} at {path} without calling handlers: {reason}.");
        }
        Rejection::Overdue(_) | Rejection::Busy => {
            warn!("A review at {path} is aborted: {rejection}");
        }
        _ => debug!("A request at {path} is rejected: {rejection}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_checked_and_content_types_are_not() {
        for (name, value, is_accepted) in [
            ("content-type", "application/json", true),
            ("content-type", "application/x-www-form-urlencoded", true),
            ("content-type", "", true),
            ("content-encoding", "identity", true),
            ("content-encoding", "gzip", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            let checked = check_encoding(&headers);
            assert_eq!(checked.is_ok(), is_accepted, "{name}: {value}");
        }
    }
}
