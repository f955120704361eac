//! Times at which objects were handled, by a watch that waits for both patches of each object.

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

/// Upper bound between two objects. The slowest implementation takes seconds to start.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A watch that runs until the expected number of objects is handled.
#[derive(Debug)]
pub(crate) struct Handled(JoinSet<Result<Vec<Instant>>>);

impl Handled {
    /// Watches objects whose names start with `prefix`.
    pub(crate) async fn watch(
        client: &Client,
        namespace: &str,
        prefix: &'static str,
        count: u32,
    ) -> Result<Self> {
        let (client, path) = (client.clone(), objects::path(namespace));
        // After the response, the watch receives all events.
        let mut body = open(&client, &path).await?;
        let mut seen = Seen {
            prefix,
            count: usize::try_from(count)?,
            names: HashSet::new(),
            times: Vec::new(),
        };
        let mut task = JoinSet::new();
        task.spawn(async move {
            // Servers can end watches at any time, in particular of new CRDs.
            while !seen.read(body).await? {
                body = open(&client, &path).await?;
            }
            Ok(seen.times)
        });
        Ok(Self(task))
    }

    /// Returns the times at which the objects were handled, sorted.
    pub(crate) async fn times(mut self) -> Result<Vec<Instant>> {
        let times = self.0.join_next().await;
        times.context("the task of the watch is missing")??
    }
}

/// Opens a watch that starts with all existing objects.
async fn open(client: &Client, path: &str) -> Result<Body> {
    let request = Request::get(format!("{path}?watch=true&resourceVersion=0"));
    let response = client.send(request.body(Body::empty())?).await;
    let response = response.context("cannot open a watch")?;
    let status = response.status();
    ensure!(status == 200, "a watch is rejected: {status}");
    Ok(response.into_body())
}

struct Seen {
    prefix: &'static str,
    count: usize,
    names: HashSet<String>,
    times: Vec<Instant>,
}

impl Seen {
    /// Reads until all objects are handled or the server ends the watch. Returns `true` if all are
    /// handled.
    async fn read(&mut self, mut body: Body) -> Result<bool> {
        let mut buffer = BytesMut::new();
        while self.times.len() < self.count {
            let Ok(frame) = timeout(TIMEOUT, body.frame()).await else {
                let (done, all) = (self.times.len(), self.count);
                bail!("{done} of {all} objects are handled, no progress for {TIMEOUT:?}");
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
