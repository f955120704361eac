//! A server for tests: it sends scripted responses in order, and records requests. It runs in
//! process, so that time can be paused.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body as RequestBody;
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::BoxError;

use crate::Client;

/// The number of requests after which a test has failed.
const MANY: usize = 10_000;

/// A scripted response.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Headers, and the pieces of a body.
    Response(u16, Vec<(&'static str, String)>, Vec<Piece>),
    /// The connection breaks before the response.
    Reset,
    /// The response never arrives.
    Never,
}

/// A piece of a body, or a failure instead of it.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Data(Bytes),
    Pause(Duration),
    Reset,
    Hang,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

#[derive(Clone)]
pub(crate) struct Script {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    /// The response to a path when the replies are used up.
    otherwise: Arc<dyn Fn(&str) -> Reply + Send + Sync>,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl Script {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> (Client, Self) {
        Self::start(replies.into_iter().collect(), Arc::new(|_| Reply::Never))
    }

    /// Returns a server that responds by the path, up to [`MANY`] requests: otherwise paused time
    /// would stand still in a tight loop.
    pub(crate) fn by_path(
        respond: impl Fn(&str) -> Reply + Send + Sync + 'static,
    ) -> (Client, Self) {
        Self::start(VecDeque::new(), Arc::new(respond))
    }

    fn start(
        replies: VecDeque<Reply>,
        otherwise: Arc<dyn Fn(&str) -> Reply + Send + Sync>,
    ) -> (Client, Self) {
        let script = Self {
            replies: Arc::new(Mutex::new(replies)),
            otherwise,
            requests: Arc::default(),
        };
        let server = script.clone();
        let service = tower::service_fn(move |request| server.clone().respond(request));
        (Client::from_service(service, "default"), script)
    }

    async fn respond(
        self,
        request: Request<RequestBody>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
        let (head, body) = request.into_parts();
        let request = RecordedRequest {
            method: head.method,
            path: head.uri.to_string(),
            headers: head.headers,
            body: body.collect_bytes().await?,
        };
        let reply = self.replies.lock().unwrap().pop_front();
        let reply = reply.unwrap_or_else(|| {
            if self.count() < MANY {
                (self.otherwise)(&request.path)
            } else {
                Reply::Never
            }
        });
        self.requests.lock().unwrap().push(request);
        match reply {
            Reply::Reset => Err("connection reset by the script".into()),
            Reply::Never => std::future::pending().await,
            Reply::Response(status, headers, pieces) => {
                let mut response = Response::builder().status(status);
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                let pieces = futures::stream::unfold(VecDeque::from(pieces), next_frame);
                Ok(response.body(StreamBody::new(pieces).boxed_unsync())?)
            }
        }
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.requests()
            .into_iter()
            .map(|request| request.path)
            .collect()
    }

    /// Returns the number of requests.
    pub(crate) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Returns the number of remaining replies.
    pub(crate) fn left(&self) -> usize {
        self.replies.lock().unwrap().len()
    }
}

type NextFrame = Option<(Result<Frame<Bytes>, BoxError>, VecDeque<Piece>)>;

async fn next_frame(mut pieces: VecDeque<Piece>) -> NextFrame {
    loop {
        match pieces.pop_front()? {
            Piece::Data(data) => return Some((Ok(Frame::data(data)), pieces)),
            Piece::Pause(pause) => sleep(pause).await,
            Piece::Reset => return Some((Err("reset by the script".into()), pieces)),
            Piece::Hang => std::future::pending().await,
        }
    }
}

/// Returns a whole response.
pub(crate) fn text(status: u16, text: impl Into<String>) -> Reply {
    Reply::Response(status, Vec::new(), vec![data(text)])
}

pub(crate) fn data(text: impl Into<String>) -> Piece {
    Piece::Data(Bytes::from(text.into()))
}

pub(crate) fn ok(body: &Value) -> Reply {
    text(200, body.to_string())
}

/// Returns an error response in the form of servers.
pub(crate) fn refusal(code: u16) -> Reply {
    text(code, status(code).to_string())
}

pub(crate) fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
           "message": format!("refused with {code}")})
}

impl Reply {
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Response(_, headers, _) = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }
}
