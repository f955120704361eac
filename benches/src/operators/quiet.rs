//! What an operator keeps of objects for which there is nothing to do, on a sandbox with many of them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use tempfile::TempDir;

use crate::load;
use crate::operators::handled::Handled;
use crate::operators::{CREATORS, Contestant, objects};
use crate::report::{Report, Target, tell};
use crate::servers::Process;

/// Objects handled before the first measurement, so that the memory of the operator itself is known.
const AT_FIRST: u32 = 1_000;
const NAMESPACE: &str = "bench-quiet";
/// Longer than an object waits for the event of its last patch.
const QUIET: Duration = Duration::from_secs(6);
const LIMIT: Duration = Duration::from_secs(600);

pub(crate) async fn measure(report: &mut Report, objects: u32) -> Result<()> {
    tell(format_args!(
        "Operators: {objects} objects on the sandbox, ours…"
    ));
    let sandbox = Process::start().await?;
    let client = sandbox.client().await?;
    let folder = TempDir::new()?;
    let start = || {
        let log = std::fs::File::create(folder.path().join("log"))?;
        Contestant::Ours.start(&sandbox.kubeconfig(), NAMESPACE, objects, log)
    };
    objects::define(&client).await?;
    load::namespace(&client, NAMESPACE).await?;

    // Each figure but one is of a process that was just started: what others have left behind in the
    // allocator is not what an object takes.
    let running = start()?;
    handle(&client, "first", AT_FIRST).await?;
    running.stop().await?;
    let running = start()?;
    running.usage()?.quiet(QUIET, LIMIT).await?;
    let few = running.usage()?.resident_megabytes()?;
    handle(&client, "object", objects).await?;
    running.usage()?.quiet(QUIET, LIMIT).await?;
    let created = running.usage()?.resident_megabytes()?;
    running.stop().await?;

    let running = start()?;
    let usage = running.usage()?;
    usage.quiet(QUIET, LIMIT).await?;
    let (resumed, peak) = (usage.resident_megabytes()?, usage.peak_megabytes()?);
    running.stop().await?;
    sandbox.stop().await.context("the sandbox")?;

    for (how, megabytes) in [("resumed", resumed), ("created", created)] {
        report.add(
            format!("memory per quiet object, {objects} {how}, ours"),
            (megabytes - few) * 1024.0 * 1024.0 / f64::from(objects),
            "bytes",
            Target::AtMost(200.0),
        );
    }
    report.add(
        format!("peak memory to resume {objects} handled objects, ours"),
        peak,
        "MB",
        Target::None,
    );
    Ok(())
}

/// Creates objects as fast as the server takes them, and waits until all are handled.
async fn handle(client: &Client, prefix: &'static str, count: u32) -> Result<()> {
    let handled = Handled::watch(client, NAMESPACE, prefix, count).await?;
    objects::create(client, NAMESPACE, prefix, count, CREATORS).await?;
    handled.times().await?;
    Ok(())
}
