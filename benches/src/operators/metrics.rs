//! The cost of metrics: the same operator with and without metrics, alternating, on the sandbox.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use tempfile::TempDir;

use crate::load;
use crate::operators::handled::Handled;
use crate::operators::{CREATORS, Implementation, LIMIT, QUIET, WARM_UP, objects};
use crate::report::{Report, Target, median, print_status};
use crate::servers::Process;

/// Runs of each operator. The medians are compared, because single runs differ by more than the
/// metrics cost.
const ROUNDS: usize = 7;

pub(crate) async fn measure(report: &mut Report, objects: u32) -> Result<()> {
    print_status(format_args!(
        "Operators: {ROUNDS} times {objects} objects on the sandbox, with and without metrics…"
    ));
    let sandbox = Process::start().await?;
    let client = sandbox.client().await?;
    objects::define(&client).await?;
    let (mut measured, mut unmeasured) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for (implementation, times) in [
            (Implementation::Ours, &mut measured),
            (Implementation::Unmeasured, &mut unmeasured),
        ] {
            let namespace = format!("bench-metrics-{implementation:?}-{round}").to_lowercase();
            let time = handle(&sandbox, &client, implementation, &namespace, objects).await;
            times.push(time.with_context(|| format!("{} in {namespace}", implementation.name()))?);
        }
    }
    sandbox.stop().await.context("the sandbox")?;
    let (measured, unmeasured) = (median(measured), median(unmeasured));
    for (implementation, time) in [
        (Implementation::Ours, measured),
        (Implementation::Unmeasured, unmeasured),
    ] {
        let what = format!(
            "CPU per created object on the sandbox, {}",
            implementation.name()
        );
        report.add(what, time, "ms", Target::None);
    }
    report.add(
        "CPU per object, with metrics / without",
        measured / unmeasured,
        "times",
        Target::AtMost(1.02),
    );
    Ok(())
}

/// Returns the CPU time per object.
async fn handle(
    sandbox: &Process,
    client: &Client,
    implementation: Implementation,
    namespace: &str,
    objects: u32,
) -> Result<Duration> {
    load::namespace(client, namespace).await?;
    let folder = TempDir::new()?;
    let log = std::fs::File::create(folder.path().join("log"))?;
    let running = implementation.start(&sandbox.kubeconfig(), namespace, objects, log)?;
    let usage = running.usage()?;
    let warm = Handled::watch(client, namespace, "warm", WARM_UP).await?;
    objects::create(client, namespace, "warm", WARM_UP, 1).await?;
    warm.times().await.context("warm-up")?;
    usage.quiet(QUIET, LIMIT).await?;
    let before = usage.cpu()?;
    let handled = Handled::watch(client, namespace, "object", objects).await?;
    objects::create(client, namespace, "object", objects, CREATORS).await?;
    handled.times().await?;
    usage.quiet(QUIET, LIMIT).await?;
    let time = usage.cpu()?.saturating_sub(before) / objects;
    running.stop().await?;
    Ok(time)
}
