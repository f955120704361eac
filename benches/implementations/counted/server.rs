//! An API server of one kind of objects, in memory, that does as little as possible: its instructions
//! are counted with those of the operator. Other requests go to a sandbox, once per run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tower::{BoxError, Service};

const OBJECTS: &str = "/apis/kopf.dev/v1/";
const PLURAL: &str = "/kopfexamples";

/// The annotation of objects that were handled.
const HANDLED: &str = "kopf.zalando.org/last-handled-configuration";

/// The managers of a typical object, which operators drop.
const MANAGED: &str = r#"[{"manager":"kubectl-client-side-apply","operation":"Update","apiVersion":"kopf.dev/v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:someannotation":{}},"f:labels":{".":{},"f:somelabel":{}}},"f:spec":{".":{},"f:duration":{},"f:field":{},"f:items":{}}}}]"#;

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;
type Fields = BTreeMap<String, Box<RawValue>>;

/// The server. Clones share the objects.
#[derive(Clone)]
pub(crate) struct Server {
    sandbox: kopf_sandbox::Service,
    shared: Arc<Mutex<Objects>>,
}

#[derive(Default)]
struct Objects {
    revision: u64,
    patches: usize,
    stored: Vec<Stored>,
    watch: Option<UnboundedSender<Bytes>>,
}

#[derive(Default, Clone)]
struct Stored {
    revision: u64,
    finalizers: Option<Box<RawValue>>,
    annotations: Fields,
    status: Fields,
}

#[derive(Deserialize)]
struct Patch<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    status: BTreeMap<Cow<'a, str>, &'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    annotations: BTreeMap<Cow<'a, str>, &'a RawValue>,
    #[serde(borrow)]
    finalizers: Option<&'a RawValue>,
}

impl Server {
    pub(crate) fn new(sandbox: kopf_sandbox::Service) -> Self {
        Self {
            sandbox,
            shared: Arc::default(),
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        change(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Creates an object.
    pub(crate) fn create(&self) {
        self.with(|objects| {
            objects.stored.push(Stored::default());
            objects.publish("ADDED", objects.stored.len() - 1);
        });
    }

    /// Returns the number of patches.
    pub(crate) fn patches(&self) -> usize {
        self.with(|objects| objects.patches)
    }

    /// Returns the number of objects that were handled.
    pub(crate) fn handled(&self) -> usize {
        self.with(|objects| objects.stored.iter().filter(|it| it.is_handled()).count())
    }

    /// Returns the numbers of the other objects.
    pub(crate) fn unhandled(&self) -> Vec<usize> {
        self.with(|objects| {
            let stored = objects.stored.iter().enumerate();
            let unhandled = stored.filter(|(_, it)| !it.is_handled());
            unhandled.map(|(number, _)| number).collect()
        })
    }

    /// Creates objects as copies of the first one, without events.
    pub(crate) fn copy_first(&self, count: usize) {
        self.with(|objects| {
            let copy = objects.stored.first().cloned().unwrap_or_default();
            objects.stored.resize(count, copy);
        });
    }

    /// Changes the status of an object as another client does.
    pub(crate) fn touch(&self, number: usize, value: usize) -> Result<()> {
        let value = RawValue::from_string(value.to_string())?;
        self.with(|objects| {
            if let Some(stored) = objects.stored.get_mut(number) {
                stored.status.insert("other".to_owned(), value);
            }
            objects.publish("MODIFIED", number);
        });
        Ok(())
    }

    async fn answer(mut self, request: Request<Body>) -> Result<Answer, BoxError> {
        let path = request.uri().path();
        if !path.starts_with(OBJECTS) || !path.contains(PLURAL) {
            let answer = self.sandbox.call(request).await?;
            return Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()));
        }
        if request.method() == Method::PATCH {
            return Ok(self.patch(request).await?);
        }
        let query = request.uri().query().unwrap_or_default();
        if !query.contains("watch=") {
            return Ok(reply(self.with(|objects| objects.list())));
        }
        let streamed = query.contains("sendInitialEvents=");
        let lines = self.with(|objects| objects.watch(streamed));
        let stream = futures::stream::unfold(lines, async |mut lines| {
            let line = lines.recv().await?;
            Some((Ok(Frame::data(line)), lines))
        });
        Ok(Response::new(StreamBody::new(stream).boxed_unsync()))
    }

    async fn patch(self, request: Request<Body>) -> Result<Answer> {
        let (head, body) = request.into_parts();
        let format = head.headers.get(CONTENT_TYPE).context("no content type")?;
        ensure!(
            format == "application/merge-patch+json",
            "unexpected patch: {format:?}"
        );
        let path = head.uri.path();
        let path = path.strip_suffix("/status").unwrap_or(path);
        let number = path.rsplit('-').next().context("no number")?.parse()?;
        let body = body.collect().await?.to_bytes();
        let patch: Patch<'_> = serde_json::from_slice(&body)?;
        Ok(reply(self.with(|objects| objects.patch(number, &patch))))
    }
}

impl Stored {
    fn is_handled(&self) -> bool {
        self.annotations.contains_key(HANDLED)
    }
}

impl Objects {
    fn publish(&mut self, event: &str, number: usize) -> String {
        self.revision += 1;
        if let Some(stored) = self.stored.get_mut(number) {
            stored.revision = self.revision;
        }
        let text = self.text(number);
        if let Some(watch) = &self.watch {
            // The operator may have closed the watch.
            let _ = watch.send(line(event, &text));
        }
        text
    }

    fn patch(&mut self, number: usize, patch: &Patch<'_>) -> String {
        self.patches += 1;
        if let Some(stored) = self.stored.get_mut(number) {
            merge(&mut stored.annotations, &patch.metadata.annotations);
            merge(&mut stored.status, &patch.status);
            if let Some(finalizers) = patch.metadata.finalizers {
                stored.finalizers = Some(finalizers.to_owned());
            }
        }
        self.publish("MODIFIED", number)
    }

    fn list(&self) -> String {
        let items: Vec<String> = (0..self.stored.len()).map(|it| self.text(it)).collect();
        format!(
            r#"{{"apiVersion":"kopf.dev/v1","kind":"KopfExampleList","metadata":{{"resourceVersion":"{}"}},"items":[{}]}}"#,
            self.revision,
            items.join(",")
        )
    }

    fn watch(&mut self, streamed: bool) -> UnboundedReceiver<Bytes> {
        let (watch, lines) = unbounded_channel();
        if streamed {
            for number in 0..self.stored.len() {
                let _ = watch.send(line("ADDED", &self.text(number)));
            }
            let end = format!(
                r#"{{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{{"resourceVersion":"{}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}"#,
                self.revision
            );
            let _ = watch.send(line("BOOKMARK", &end));
        }
        self.watch = Some(watch);
        lines
    }

    fn text(&self, number: usize) -> String {
        let nothing = Stored::default();
        let stored = self.stored.get(number).unwrap_or(&nothing);
        let mut text = format!(
            r#"{{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{{"name":"object-{number}","namespace":"default","uid":"{:08x}-7c7e-4c3b-9d55-{number:012}","resourceVersion":"{}","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"somelabel":"somevalue"}},"annotations":{{"someannotation":"somevalue""#,
            // Spread, like random ones: shards are ranges of the hashes of uids.
            number.wrapping_mul(0x9e37_79b9) & 0xffff_ffff,
            stored.revision
        );
        append(&mut text, true, &stored.annotations);
        text.push('}');
        if let Some(finalizers) = &stored.finalizers {
            text.push_str(r#","finalizers":"#);
            text.push_str(finalizers.get());
        }
        text.push_str(r#","managedFields":"#);
        text.push_str(MANAGED);
        text.push_str(r#"},"spec":{"duration":"1m","field":"value","items":["item1","item2"]}"#);
        if !stored.status.is_empty() {
            text.push_str(r#","status":{"#);
            append(&mut text, false, &stored.status);
            text.push('}');
        }
        text.push('}');
        text
    }
}

fn append(text: &mut String, mut rest: bool, fields: &Fields) {
    for (name, value) in fields {
        if rest {
            text.push(',');
        }
        rest = true;
        text.push('"');
        text.push_str(name);
        text.push_str("\":");
        text.push_str(value.get());
    }
}

fn merge(fields: &mut Fields, patch: &BTreeMap<Cow<'_, str>, &RawValue>) {
    for (name, value) in patch {
        if value.get() == "null" {
            fields.remove(name.as_ref());
        } else {
            fields.insert(name.clone().into_owned(), (*value).to_owned());
        }
    }
}

fn line(event: &str, object: &str) -> Bytes {
    format!("{{\"type\":\"{event}\",\"object\":{object}}}\n").into()
}

fn reply(text: String) -> Answer {
    let body = Full::new(Bytes::from(text));
    let mut answer = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    answer.headers_mut().insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    answer
}

impl Service<Request<Body>> for Server {
    type Response = Answer;
    type Error = BoxError;
    type Future = futures::future::BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}
