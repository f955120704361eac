//! Events per second to many watchers, at the maximum write rate.
//!
//! The write rate itself is not reported, as all CPUs are busy. The effect of watchers on writers
//! is measured by `latency`.

use anyhow::{Context as _, Result};
use kube::Client;
use tokio::time::Instant;

use crate::load;
use crate::report::{Report, Target};
use crate::servers;
use crate::watchers::Watchers;

/// Number of events, summed over all watchers.
const EVENTS: u32 = 300_000;
const TASKS: u32 = 4;

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
    let namespace = format!("bench-fanout-{watchers}");
    let time = time(client, &namespace, watchers)
        .await
        .context(server.to_owned())?;
    report.add(
        format!("watch, {watchers} watchers, {server}"),
        load::rate(EVENTS, time),
        "events per second",
        Target::None,
    );
    Ok(())
}

/// Returns the time from the first create until all watchers have received all events.
async fn time(client: &Client, namespace: &str, watchers: u32) -> Result<std::time::Duration> {
    load::namespace(client, namespace).await?;
    let objects = EVENTS / watchers;
    let running = Watchers::open(client, namespace, watchers, objects).await?;
    let began = Instant::now();
    load::create(client, namespace, objects, load::KILOBYTE, TASKS).await?;
    running.finish().await?;
    Ok(began.elapsed())
}
