//! The recorder as a service.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use http::header::CONTENT_TYPE;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;

use super::breakpoint::Moment;
use super::call::{Call, verb};
use super::{Line, Shared};

/// A service that passes requests to a client and records writes.
///
/// Created by [`Recorder::record`](super::Recorder::record).
#[derive(Clone)]
pub struct Recorded {
    client: Client,
    shared: Arc<Shared>,
    line: Line,
}

impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorded").finish_non_exhaustive()
    }
}

impl Recorded {
    pub(super) fn new(client: Client, shared: Arc<Shared>, line: Line) -> Self {
        Self {
            client,
            shared,
            line,
        }
    }

    async fn pass(self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        self.check_line().await;
        self.shared.requests.fetch_add(1, Ordering::SeqCst);
        let answered = Pending::new(&self.shared);
        let response = match verb(request.method()) {
            Some(verb) => self.write(verb, request).await,
            None => self.client.send(request).await,
        };
        drop(answered);
        self.check_line().await;
        response
    }

    async fn write(
        &self,
        verb: &'static str,
        request: Request<Body>,
    ) -> Result<Response<Body>, kube::Error> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect_bytes().await?;
        let content_type = parts
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let mut unfinished = Unfinished {
            call: Some(Call::new(verb, parts.uri.path(), content_type, &bytes)),
            shared: &self.shared,
        };
        let number = match &unfinished.call {
            Some(call) if !call.is_event() => Some(self.shared.breakpoints.begin()),
            _ => None,
        };
        self.stop(number, Moment::Before).await;
        let response = self
            .client
            .send(Request::from_parts(parts, Body::from(bytes)))
            .await?;
        let (parts, body) = response.into_parts();
        let bytes = body.collect_bytes().await?;
        if let Some(call) = &mut unfinished.call {
            call.status = Some(parts.status.as_u16());
            call.response = serde_json::from_slice(&bytes).unwrap_or_default();
        }
        // Recorded before the operator receives the response, because the write is done.
        drop(unfinished);
        self.stop(number, Moment::After).await;
        Ok(Response::from_parts(parts, Body::from(bytes)))
    }

    async fn stop(&self, number: Option<u64>, moment: Moment) {
        if let Some(number) = number {
            self.shared.breakpoints.pass(number, moment).await;
            self.check_line().await;
        }
    }

    /// Returns only if the line is not cut; otherwise, waits forever.
    async fn check_line(&self) {
        if self.line.is_cut() {
            pending::<()>().await;
        }
    }
}

/// Counts a request as pending until it is dropped.
struct Pending<'a>(&'a Shared);

impl<'a> Pending<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.pending.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Records a call when it is dropped: after the response, after a broken connection, or if it is
/// cancelled.
struct Unfinished<'a> {
    call: Option<Call>,
    shared: &'a Shared,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.shared.lock().extend(self.call.take());
    }
}

impl tower::Service<Request<Body>> for Recorded {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().pass(request))
    }
}
