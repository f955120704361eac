//! Latency from the watch line to the handler under moderate load.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::load;
use crate::operators::handled::Handled;
use crate::operators::implementations::sibling;
use crate::operators::{Bench, WARM_UP, objects};
use crate::report::{Report, Target, percentile, print_status};

/// Watch lines per second. Each object causes three: its creation and two patches.
const LINES: u32 = 500;
const LINES_OF_AN_OBJECT: u32 = 3;
const SECONDS: u32 = 20;
const NAMESPACE: &str = "bench-entry";

pub(crate) async fn measure(report: &mut Report, bench: &Bench) -> Result<()> {
    let objects = LINES * SECONDS / LINES_OF_AN_OBJECT;
    print_status(format_args!("Operators: {LINES} events per second…"));
    let client = &bench.client;
    load::namespace(client, NAMESPACE).await?;
    let mut child = Command::new(sibling("bench-entry")?)
        .arg(NAMESPACE)
        .env("KUBECONFIG", bench.control_plane.kubeconfig())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start bench-entry")?;
    let warm = Handled::watch(client, NAMESPACE, "warm", WARM_UP).await?;
    objects::create(client, NAMESPACE, "warm", WARM_UP, 1).await?;
    warm.times().await.context("warm-up")?;

    let handled = Handled::watch(client, NAMESPACE, "object", objects).await?;
    let mut clock = interval(Duration::from_secs(1) * LINES_OF_AN_OBJECT / LINES);
    let mut creates = JoinSet::new();
    for number in 0..objects {
        clock.tick().await;
        let client = client.clone();
        creates.spawn(async move {
            let object = objects::object("object", number);
            load::post(&client, &objects::path(NAMESPACE), &object).await
        });
    }
    while let Some(result) = creates.join_next().await {
        result??;
    }
    handled.times().await?;

    drop(child.stdin.take());
    let mut printed = String::new();
    let mut stdout = child.stdout.take().context("stdout is piped")?;
    stdout.read_to_string(&mut printed).await?;
    let times = printed.lines().map(|line| Ok(line.parse()?));
    let times: Vec<Duration> = times
        .map(|time: Result<_>| time.map(Duration::from_micros))
        .collect::<Result<_>>()?;
    let count = u32::try_from(times.len())?;
    ensure!(
        count > objects / 2,
        "only {count} of {objects} objects were measured"
    );
    for (percent, what) in [(50, "median"), (99, "99 %")] {
        report.add(
            format!("watch line to handler, {LINES} events per second, ours: {what}"),
            percentile(times.clone(), percent),
            "ms",
            Target::None,
        );
    }
    Ok(())
}
