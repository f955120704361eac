//! Many watches of one namespace, read to the end of what is expected.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::Request;
use http_body::Body;
use http_body_util::BodyExt as _;
use kube::Client;
use tokio::task::JoinSet;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(120);

/// Watches that run until each has seen its events.
#[derive(Debug)]
pub(crate) struct Watchers(JoinSet<Result<()>>);

impl Watchers {
    /// Opens so many watches of the namespace's configmaps, each of which is to see so many events. Over
    /// TLS, each has a connection of its own.
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
            // Answered at once: from here on, it sees everything.
            let request = Request::get(&path).body(kube::client::Body::empty())?;
            let response = client.send(request).await;
            let response = response.context("a watch is not answered")?;
            ensure!(
                response.status() == 200,
                "a watch is refused: {}",
                response.status()
            );
            running.spawn(async move {
                timeout(PATIENCE, read(response.into_body(), events))
                    .await
                    .context("events do not come in time")?
            });
        }
        Ok(Self(running))
    }

    /// Waits until all have seen all.
    pub(crate) async fn finish(mut self) -> Result<()> {
        while let Some(result) = self.0.join_next().await {
            result??;
        }
        Ok(())
    }
}

/// Reads until so many events have come: one per line.
async fn read<B>(mut body: B, events: u32) -> Result<()>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static> + Unpin,
{
    let mut seen = 0;
    while seen < events {
        let frame = body.frame().await.context("the watch ends early")??;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let lines = data.split(|byte| *byte == b'\n').count() - 1;
        seen += u32::try_from(lines)?;
    }
    Ok(())
}
