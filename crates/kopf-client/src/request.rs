//! The request path: limits in time and number, retries, errors.
//!
//! A call is either a request with a whole response, which is retried by
//! `settings.networking.error_backoffs`, or the opening of a stream, which is not: streams recover
//! by themselves. 4xx responses, including 403, are never retried here.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kopf_core::failure::describe;
use kopf_core::key_order::{self, Ordered};
use kopf_core::settings::Backoffs;
use kube::client::Body as RequestBody;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tower::BoxError;
use tracing::{debug, error};

use crate::client::{Client, RequestChannel};
use crate::connection::http2::Purpose;
use crate::connection::limit::{ConnectTimedOut, with_connect_limit};
use crate::connection::stale::NoResponse;
use crate::connection::trust::is_distrust;
use crate::error::{Error, Status};
use crate::observing::{observed, request_span, traced};
use crate::transport::{ResponseBody, ResponseFuture};

const JSON: &str = "application/json";

/// Maximum size of the body of an error response, in bytes.
const ERROR_BODY_LIMIT: usize = 1 << 20;

/// Upper bound for the body of a response with one object; see the limit for lines of watches.
const OBJECT_LIMIT: usize = 32 << 20;

/// Upper bound for the body of other responses. A page of 500 objects is usually below 10 MB.
const LIST_LIMIT: usize = 512 << 20;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// The path with the query.
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    pub(crate) content: Option<(&'static str, Bytes)>,
    /// Maximum number of attempts, if the settings allow more.
    pub(crate) attempts: usize,
    /// Delays before retries; `None` for those of the settings.
    pub(crate) backoffs: Option<Backoffs>,
    /// Upper bound for the body of the response, in bytes.
    pub(crate) limit: usize,
}

impl Call {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            accept: JSON,
            content: None,
            attempts: usize::MAX,
            backoffs: None,
            limit: LIST_LIMIT,
        }
    }

    pub(crate) fn with_content(
        method: Method,
        path: impl Into<String>,
        content_type: &'static str,
        content: &impl Serialize,
    ) -> Self {
        // JSON values can always be written as text.
        let text = serde_json::to_vec(content).unwrap_or_default();
        Self {
            method,
            content: Some((content_type, Bytes::from(text))),
            limit: OBJECT_LIMIT,
            ..Self::get(path)
        }
    }

    /// Returns the size of the content in bytes.
    pub(crate) fn content_size(&self) -> usize {
        self.content
            .as_ref()
            .map_or(0, |(_, content)| content.len())
    }

    pub(crate) fn accepting(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }

    pub(crate) fn at_most(self, attempts: usize) -> Self {
        Self { attempts, ..self }
    }

    /// Builds the request. With a purpose, it may be sent by HTTP/2.
    fn request(&self, purpose: Option<Purpose>) -> Result<Request<RequestBody>, Error> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.path)
            .header(ACCEPT, self.accept);
        if let Some(purpose) = purpose {
            request = request.extension(purpose);
        }
        let mut body = RequestBody::empty();
        if let Some((kind, content)) = &self.content {
            request = request.header(CONTENT_TYPE, *kind);
            body = RequestBody::from(content.clone());
        }
        request.body(body).map_err(|error| Error::Impossible {
            reason: format!("{} {}: {error}", self.method, self.path),
        })
    }
}

impl Client {
    /// Reads a document, such as `/version` or an object.
    pub async fn get_json(&self, path: &str) -> Result<Value, Error> {
        parse(&self.ask(Call::get(path)).await?)
    }

    /// Creates an object under the path of its kind, and returns it as created.
    pub async fn post_json(&self, path: &str, content: &Value) -> Result<Value, Error> {
        let call = Call::with_content(Method::POST, path, JSON, content);
        parse(&self.ask(call).await?)
    }

    /// Replaces the object at this path, in one attempt, and returns it as replaced. With a
    /// `metadata.resourceVersion`, other versions are a conflict (409).
    pub async fn put_json(&self, path: &str, content: &Value) -> Result<Value, Error> {
        let call = Call::with_content(Method::PUT, path, JSON, content);
        parse(&self.ask_once(&call).await?)
    }

    /// Creates an object as [`post_json`](Self::post_json) does, in one attempt.
    pub async fn post_json_once(&self, path: &str, content: &Value) -> Result<Value, Error> {
        let call = Call::with_content(Method::POST, path, JSON, content);
        parse(&self.ask_once(&call).await?)
    }

    /// Reads a document as [`get_json`](Self::get_json) does, in one attempt.
    pub async fn get_json_once(&self, path: &str) -> Result<Value, Error> {
        parse(&self.ask_once(&Call::get(path)).await?)
    }

    /// Deletes the object at this path, in one attempt, if it still has this resource version.
    pub async fn delete_version(&self, path: &str, version: &str) -> Result<(), Error> {
        let options = serde_json::json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"resourceVersion": version},
        });
        let call = Call::with_content(Method::DELETE, path, JSON, &options);
        self.ask_once(&call).await.map(drop)
    }

    /// Sends a request and retries it.
    ///
    /// # Cancellation
    ///
    /// When dropped, the server may or may not have received the request.
    pub(crate) async fn ask(&self, call: Call) -> Result<Bytes, Error> {
        let networking = self.networking();
        let mut failures = 0_usize;
        loop {
            if failures > 0 {
                debug!(
                    "Request attempt {}: {}",
                    self.index(&call, failures),
                    self.what(&call)
                );
            }
            let error = match self.ask_once(&call).await {
                Ok(response) => {
                    if failures > 0 {
                        let (index, what) = (self.index(&call, failures), self.what(&call));
                        debug!("Request attempt {index} succeeded: {what}");
                    }
                    return Ok(response);
                }
                Err(error) if !error.is_transient() => return Err(error),
                Err(error) => error,
            };
            let (index, what) = (self.index(&call, failures), self.what(&call));
            let allowed = failures.saturating_add(1) < call.attempts;
            let backoff = self.backoffs(&call).get(failures).filter(|_| allowed);
            let Some(mut backoff) = backoff else {
                error!("Request attempt {index} failed; escalating: {what} -> {error}");
                return Err(error);
            };
            if let Some(asked) = self.retry_after(&error)
                && (networking.enforce_retry_after || asked > backoff)
            {
                debug!(
                    "Overriding the backoff {}s with the retry-after {}s from the server: {what}",
                    backoff.as_secs_f64(),
                    asked.as_secs_f64()
                );
                backoff = asked;
            }
            error!("Request attempt {index} failed; will retry: {what} -> {error}");
            sleep(backoff).await;
            failures = failures.saturating_add(1);
        }
    }

    /// Sends a request for a whole response, again after each rejection of the credentials.
    pub(crate) async fn ask_once(&self, call: &Call) -> Result<Bytes, Error> {
        loop {
            // Waiting for credentials does not count towards the request timeout.
            let channel = self.request_channel().await?;
            let result = self.ask_through(&channel, call).await;
            if !channel.is_closed_by(&result) {
                return result;
            }
        }
    }

    async fn ask_through(&self, channel: &RequestChannel<'_>, call: &Call) -> Result<Bytes, Error> {
        let purpose = if call.method == Method::GET {
            Purpose::Read
        } else {
            Purpose::Write
        };
        let request = call.request(self.shares_connections().then_some(purpose))?;
        let Ok(_room) = self.room().acquire().await else {
            return Err(Error::Impossible {
                reason: "the client is closed".to_owned(),
            });
        };
        let response = self.dispatch(
            call,
            channel.send(request),
            self.networking().connect_timeout,
        );
        let limit = call.limit;
        within(self.networking().request_timeout, async move {
            whole(accepted(response).await?, limit).await
        })
        .await
    }

    /// Opens a stream, again after each rejection of the credentials. The limit applies to the
    /// response headers.
    pub(crate) async fn open(
        &self,
        call: &Call,
        limit: Option<Duration>,
    ) -> Result<ResponseBody, Error> {
        loop {
            let channel = self.request_channel().await?;
            let purpose = self.shares_connections().then_some(Purpose::Watch);
            let response = self.dispatch(call, channel.send(call.request(purpose)?), limit);
            let result = within(limit, accepted(response)).await;
            if !channel.is_closed_by(&result) {
                return result;
            }
        }
    }

    fn shares_connections(&self) -> bool {
        self.networking().http2
    }

    fn dispatch(
        &self,
        call: &Call,
        response: ResponseFuture,
        connect: Option<Duration>,
    ) -> ResponseFuture {
        let span = request_span(&call.method, &call.path);
        let response = traced(span, with_connect_limit(connect, response));
        match self.series(&call.method, &call.path) {
            Some(series) => Box::pin(observed(series, response)),
            None => Box::pin(response),
        }
    }

    /// Returns the number of an attempt, in the format of the original's logs.
    fn index(&self, call: &Call, failures: usize) -> String {
        let backoffs = self.backoffs(call);
        let attempt = failures.saturating_add(1);
        if backoffs.get(usize::MAX).is_some() && call.attempts == usize::MAX {
            return format!("#{attempt}");
        }
        let retries = call.attempts.saturating_sub(1);
        format!("#{attempt}/{}", backoffs.iter().take(retries).count() + 1)
    }

    fn backoffs<'a>(&'a self, call: &'a Call) -> &'a Backoffs {
        let default = &self.networking().error_backoffs;
        call.backoffs.as_ref().unwrap_or(default)
    }

    fn what(&self, call: &Call) -> String {
        format!("{} {}{}", call.method, self.server(), call.path)
    }
}

/// Reads a body to its end, up to the limit.
async fn whole(mut body: ResponseBody, limit: usize) -> Result<Bytes, Error> {
    // Most responses arrive as one chunk, which is not copied.
    let mut first = Bytes::new();
    let mut joined = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        let Ok(chunk) = frame.into_data() else {
            continue;
        };
        let size = first.len().max(joined.len()).saturating_add(chunk.len());
        if size > limit {
            let what = "the body of the response";
            return Err(Error::TooLarge { what, limit });
        }
        if first.is_empty() && joined.is_empty() {
            first = chunk;
        } else {
            joined.extend_from_slice(&std::mem::take(&mut first));
            joined.extend_from_slice(&chunk);
        }
    }
    Ok(if joined.is_empty() {
        first
    } else {
        Bytes::from(joined)
    })
}

pub(crate) fn parse(response: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(response).map_err(|error| Error::malformed("the document", &error))
}

/// Parses a response with the order of its keys.
pub(crate) fn parse_in_order(response: &[u8]) -> Result<Ordered, Error> {
    key_order::parse(response).map_err(|error| Error::malformed("the document", &error))
}

async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match limit {
        None => work.await,
        Some(after) => timeout(after, work)
            .await
            .unwrap_or(Err(Error::Timeout { after })),
    }
}

/// Returns the body of a success, and reads that of an error.
async fn accepted(response: ResponseFuture) -> Result<ResponseBody, Error> {
    let (head, mut body) = response.await.map_err(|error| broken(&error))?.into_parts();
    if head.status.is_success() {
        return Ok(body);
    }
    // The status code suffices if the body cannot be read.
    let mut text = Vec::new();
    while let Some(Ok(frame)) = body.frame().await
        && let Some(piece) = frame.data_ref()
        && text.len() < ERROR_BODY_LIMIT
    {
        text.extend_from_slice(piece);
    }
    let retry_after = head
        .headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok());
    let status = Status::from_response(head.status.as_u16(), retry_after, &text);
    Err(Error::Status(Box::new(status)))
}

pub(crate) fn broken(error: &BoxError) -> Error {
    let error: &(dyn std::error::Error + 'static) = &**error;
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(ConnectTimedOut { after }) = error.downcast_ref() {
            return Error::Timeout { after: *after };
        }
        if let Some(NoResponse { after }) = error.downcast_ref() {
            return Error::Timeout { after: *after };
        }
        cause = error.source();
    }
    if is_distrust(error) {
        return Error::Untrusted {
            reason: describe(error),
        };
    }
    Error::network(error)
}

#[cfg(test)]
mod tests;
