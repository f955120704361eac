//! Concurrent watches of one namespace.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::Request;
use http_body::Body;
use http_body_util::BodyExt as _;
use kube::Client;
use tokio::task::JoinSet;
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(120);

/// Watches that run until each has received its events.
#[derive(Debug)]
pub(crate) struct Watchers(JoinSet<Result<()>>);

impl Watchers {
    /// Opens `count` watches of the namespace's configmaps, each for `events` events. Over TLS,
    /// each has its own connection.
    pub(crate) async fn open(
        client: &Client,
        namespace: &str,
        count: u32,
        events: u32,
    ) -> Result<Self> {
        let path =
            format!("/api/v1/namespaces/{namespace}/configmaps?watch=true&resourceVersion=0");
        let mut running = JoinSet::new();
        for _ in 0..count {
            // After the response, the watch receives all events.
            let request = Request::get(&path).body(kube::client::Body::empty())?;
            let response = client.send(request).await;
            let response = response.context("cannot open a watch")?;
            ensure!(
                response.status() == 200,
                "a watch is rejected: {}",
                response.status()
            );
            running.spawn(async move {
                timeout(TIMEOUT, read(response.into_body(), events))
                    .await
                    .with_context(|| format!("missing events after {TIMEOUT:?}"))?
            });
        }
        Ok(Self(running))
    }

    /// Waits until all watches have received all events.
    pub(crate) async fn finish(mut self) -> Result<()> {
        while let Some(result) = self.0.join_next().await {
            result??;
        }
        Ok(())
    }
}

/// Reads until `events` lines have arrived, one per event.
async fn read<B>(mut body: B, events: u32) -> Result<()>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static> + Unpin,
{
    let mut seen = 0;
    while seen < events {
        let frame = body.frame().await.context("the watch ended early")??;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let lines = data.split(|byte| *byte == b'\n').count() - 1;
        seen += u32::try_from(lines)?;
    }
    Ok(())
}
