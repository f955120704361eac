//! Latency of creates at a fixed rate, with and without many watchers.
//!
//! At this rate, the events do not saturate the CPUs, so the difference shows the effect of
//! watchers on writers. Creates start on schedule even if earlier ones are not finished, so stalls
//! of the server are not hidden.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

use crate::load;
use crate::report::{Report, Target, percentile};
use crate::servers;
use crate::watchers::Watchers;

const WATCHERS: u32 = 1000;
/// Creates per second. With 1000 watchers, 50,000 events per second.
const PER_SECOND: u32 = 50;
const CREATES: u32 = 500;

pub(crate) async fn measure(
    report: &mut Report,
    over_tls: &Client,
    real: Option<&Client>,
) -> Result<()> {
    let (sandbox, in_process) = servers::in_process()?;
    one(report, "sandbox in process", &in_process).await?;
    sandbox.shutdown().await;
    one(report, "sandbox over TLS", over_tls).await?;
    if let Some(real) = real {
        one(report, "kube-apiserver and etcd", real).await?;
    }
    Ok(())
}

async fn one(report: &mut Report, server: &str, client: &Client) -> Result<()> {
    for watchers in [0, WATCHERS] {
        let namespace = format!("bench-latency-{watchers}");
        let times = times(client, &namespace, watchers)
            .await
            .context(server.to_owned())?;
        for (percent, what) in [(50, "median"), (99, "99 %")] {
            report.add(
                format!("create, {PER_SECOND} a second, {watchers} watchers, {server}: {what}"),
                percentile(times.clone(), percent),
                "ms",
                Target::None,
            );
        }
    }
    Ok(())
}

/// Returns the times of all creates.
async fn times(client: &Client, namespace: &str, watchers: u32) -> Result<Vec<Duration>> {
    load::namespace(client, namespace).await?;
    let running = Watchers::open(client, namespace, watchers, CREATES).await?;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let mut clock = interval(Duration::from_secs(1) / PER_SECOND);
    let mut creates = JoinSet::new();
    for number in 0..CREATES {
        clock.tick().await;
        let (client, path) = (client.clone(), path.clone());
        let body = load::config_map(number, load::KILOBYTE);
        let began = Instant::now();
        creates.spawn(async move {
            load::post(&client, &path, &body).await?;
            Ok(began.elapsed())
        });
    }
    let mut times = Vec::new();
    while let Some(time) = creates.join_next().await {
        let time: Result<Duration> = time?;
        times.push(time?);
    }
    running.finish().await?;
    Ok(times)
}
