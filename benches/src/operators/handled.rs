//! When objects were handled, as the server tells: a watch that waits for both patches of each object.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Buf as _, BytesMut};
use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::operators::objects;

/// Between one object and the next. The slowest contestant needs seconds to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A watch that runs until so many objects are handled.
#[derive(Debug)]
pub(crate) struct Handled(JoinSet<Result<Vec<Instant>>>);

impl Handled {
    /// Watches for objects with this prefix of their names.
    pub(crate) async fn watch(
        client: &Client,
        namespace: &str,
        prefix: &'static str,
        count: u32,
    ) -> Result<Self> {
        let (client, path) = (client.clone(), objects::path(namespace));
        // Answered at once: from here on, it sees everything.
        let mut body = open(&client, &path).await?;
        let mut seen = Seen {
            prefix,
            count: usize::try_from(count)?,
            names: HashSet::new(),
            times: Vec::new(),
        };
        let mut task = JoinSet::new();
        task.spawn(async move {
            // Servers end watches as they like, above all when a kind is new.
            while !seen.read(body).await? {
                body = open(&client, &path).await?;
            }
            Ok(seen.times)
        });
        Ok(Self(task))
    }

    /// The times at which they were handled, in this order.
    pub(crate) async fn times(mut self) -> Result<Vec<Instant>> {
        let times = self.0.join_next().await;
        times.context("the watch is there until it is asked")??
    }
}

/// A watch that begins with all that is there.
async fn open(client: &Client, path: &str) -> Result<Body> {
    let request = Request::get(format!("{path}?watch=true&resourceVersion=0"));
    let response = client.send(request.body(Body::empty())?).await;
    let response = response.context("a watch is not answered")?;
    let status = response.status();
    ensure!(status == 200, "a watch is refused: {status}");
    Ok(response.into_body())
}

struct Seen {
    prefix: &'static str,
    count: usize,
    names: HashSet<String>,
    times: Vec<Instant>,
}

impl Seen {
    /// Reads until all are handled (then it is true), or until the server ends the watch.
    async fn read(&mut self, mut body: Body) -> Result<bool> {
        let mut buffer = BytesMut::new();
        while self.times.len() < self.count {
            let Ok(frame) = timeout(PATIENCE, body.frame()).await else {
                let (done, all) = (self.times.len(), self.count);
                bail!("{done} of {all} are handled, and nothing happens");
            };
            let Some(frame) = frame else { return Ok(false) };
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            buffer.extend_from_slice(&data);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line = serde_json::from_slice(buffer.get(..end).unwrap_or_default())?;
                buffer.advance(end + 1);
                self.see(line);
            }
        }
        Ok(true)
    }

    fn see(&mut self, line: Line) {
        let object = line.object;
        if object.is_handled()
            && object.metadata.name.starts_with(self.prefix)
            && self.names.insert(object.metadata.name)
        {
            self.times.push(Instant::now());
        }
    }
}

#[derive(Deserialize)]
struct Line {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Status {
    create_fn: Option<IgnoredAny>,
}

impl Object {
    fn is_handled(&self) -> bool {
        let marked = "kopf.zalando.org/last-handled-configuration";
        self.metadata.annotations.contains_key(marked)
            && (self.status.as_ref()).is_some_and(|status| status.create_fn.is_some())
    }
}
