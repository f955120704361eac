//! Events per second to many watchers, and what they cost the writer.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::Request;
use http_body::Body;
use http_body_util::BodyExt as _;
use kube::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::load;
use crate::report::{Report, Target};
use crate::servers;

/// Events per watcher.
const OBJECTS: u32 = 300;
const TASKS: u32 = 4;
const BYTES: usize = 800;
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn measure(
    report: &mut Report,
    over_tls: &Client,
    real: Option<&Client>,
) -> Result<()> {
    for watchers in [100, 1000] {
        let (sandbox, in_process) = servers::in_process()?;
        one(report, "sandbox in process", &in_process, watchers).await?;
        sandbox.shutdown().await;
        one(report, "sandbox over TLS", over_tls, watchers).await?;
        if let Some(real) = real {
            one(report, "kube-apiserver and etcd", real, watchers).await?;
        }
    }
    Ok(())
}

async fn one(report: &mut Report, server: &str, client: &Client, watchers: u32) -> Result<()> {
    let alone = format!("bench-alone-{watchers}");
    load::namespace(client, &alone).await?;
    let unwatched = load::create(client, &alone, OBJECTS, BYTES, TASKS).await?;

    let namespace = format!("bench-fanout-{watchers}");
    load::namespace(client, &namespace).await?;
    let mut running = JoinSet::new();
    for _ in 0..watchers {
        let path =
            format!("/api/v1/namespaces/{namespace}/configmaps?watch=true&resourceVersion=0");
        // Answered at once: from here on, it sees everything.
        let response = client
            .send(Request::get(path).body(kube::client::Body::empty())?)
            .await;
        let response = response.with_context(|| format!("{server}: a watch is not answered"))?;
        ensure!(
            response.status() == 200,
            "{server}: a watch is refused: {}",
            response.status()
        );
        running.spawn(timeout(PATIENCE, count(response.into_body(), OBJECTS)));
    }
    let began = Instant::now();
    let watched = load::create(client, &namespace, OBJECTS, BYTES, TASKS).await?;
    while let Some(result) = running.join_next().await {
        result?.with_context(|| format!("{server}: events do not come in time"))??;
    }
    let all = began.elapsed();

    let name = format!("watch, {watchers} watchers, {server}");
    let events = load::rate(OBJECTS * watchers, all);
    report.add(name.clone(), events, "events per second", Target::None);
    let slowdown = watched.as_secs_f64() / unwatched.as_secs_f64();
    report.add(
        format!("{name}: creates take"),
        slowdown,
        "times as long",
        Target::None,
    );
    Ok(())
}

/// Reads until so many events have come: one per line.
async fn count<B>(mut body: B, events: u32) -> Result<()>
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
