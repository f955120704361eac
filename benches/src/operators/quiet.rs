//! Memory of an operator per quiet object, on a sandbox with many objects.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use tempfile::TempDir;

use crate::load;
use crate::operators::handled::Handled;
use crate::operators::{CREATORS, Implementation, objects};
use crate::report::{Report, Target, print_status};
use crate::servers::Process;

/// Objects handled before the first measurement, which determines the base memory of the operator.
const AT_FIRST: u32 = 1_000;
const NAMESPACE: &str = "bench-quiet";
/// Longer than an object waits for the echo of its last patch.
const QUIET: Duration = Duration::from_secs(6);
const LIMIT: Duration = Duration::from_secs(600);

pub(crate) async fn measure(report: &mut Report, objects: u32) -> Result<()> {
    print_status(format_args!(
        "Operators: {objects} objects on the sandbox, ours…"
    ));
    let sandbox = Process::start().await?;
    let client = sandbox.client().await?;
    let folder = TempDir::new()?;
    let start = || {
        let log = std::fs::File::create(folder.path().join("log"))?;
        Implementation::Ours.start(&sandbox.kubeconfig(), NAMESPACE, objects, log)
    };
    objects::define(&client).await?;
    load::namespace(&client, NAMESPACE).await?;

    // All figures but one are measured in a new process, so that they include no memory that the
    // allocator retains from earlier work.
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
    sandbox.stop().await.context("sandbox")?;

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

/// Creates objects at the maximum rate, and waits until all are handled.
async fn handle(client: &Client, prefix: &'static str, count: u32) -> Result<()> {
    let handled = Handled::watch(client, NAMESPACE, prefix, count).await?;
    objects::create(client, NAMESPACE, prefix, count, CREATORS).await?;
    handled.times().await?;
    Ok(())
}
