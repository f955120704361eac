//! The cost of a choice: the same operator with and without it, alternating, on the sandbox.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use tempfile::TempDir;

use crate::load;
use crate::operators::{Implementation, create, objects, warm_up};
use crate::report::{Report, Target, median, print_status};
use crate::servers::Process;

/// Runs of each operator. The medians are compared, because single runs differ by more than most
/// choices cost.
const ROUNDS: usize = 7;

/// The runs of one operator.
#[derive(Debug, Default)]
struct Runs {
    /// CPU time of the operator per object.
    operator: Vec<Duration>,
    /// CPU time of the server per object, for the operator and for the creation of the object.
    server: Vec<Duration>,
    /// Time from the first creation until the last object is handled.
    whole: Vec<Duration>,
    /// Peak memory of the operator, in megabytes.
    memory: f64,
}

/// Measures the cost of metrics.
pub(crate) async fn metrics(report: &mut Report, objects: u32) -> Result<()> {
    let (with, without) = compare(Implementation::Unmeasured, objects).await?;
    let (with, without) = (median(with.operator), median(without.operator));
    for (implementation, time) in [
        (Implementation::Ours, with),
        (Implementation::Unmeasured, without),
    ] {
        let what = format!(
            "CPU per created object on the sandbox, {}",
            implementation.name()
        );
        report.add(what, time, "ms", Target::None);
    }
    report.add(
        "CPU per object, with metrics / without",
        with / without,
        "times",
        Target::AtMost(1.02),
    );
    Ok(())
}

/// Measures HTTP/2 next to HTTP/1.1, and another allocator next to that of the system.
pub(crate) async fn choices(report: &mut Report, objects: u32) -> Result<()> {
    for choice in [Implementation::Http2, Implementation::Mimalloc] {
        let (usual, chosen) = compare(choice, objects).await?;
        for (implementation, runs) in [(Implementation::Ours, usual), (choice, chosen)] {
            // The usual one is measured next to each choice.
            let name = format!("{}, next to {}", implementation.name(), choice.name());
            for (what, times) in [
                ("CPU per created object", runs.operator),
                ("CPU of the sandbox per created object", runs.server),
                ("time for all objects", runs.whole),
            ] {
                report.add(format!("{what}, {name}"), median(times), "ms", Target::None);
            }
            let what = format!("peak memory of the operator, {name}");
            report.add(what, runs.memory, "MB", Target::None);
        }
    }
    Ok(())
}

/// Runs the usual operator and another one.
async fn compare(other: Implementation, objects: u32) -> Result<(Runs, Runs)> {
    let name = other.name();
    print_status(format_args!(
        "Operators: {ROUNDS} times {objects} objects on the sandbox, ours and {name}…"
    ));
    let sandbox = Process::start().await?;
    let client = sandbox.client().await?;
    objects::define(&client).await?;
    let (mut usual, mut chosen) = (Runs::default(), Runs::default());
    for round in 0..ROUNDS {
        for (implementation, runs) in [(Implementation::Ours, &mut usual), (other, &mut chosen)] {
            let namespace = format!("bench-{other:?}-{implementation:?}-{round}").to_lowercase();
            let handling = handle(&sandbox, &client, implementation, &namespace, objects, runs);
            handling
                .await
                .with_context(|| format!("{} in {namespace}", implementation.name()))?;
        }
    }
    sandbox.stop().await.context("the sandbox")?;
    Ok((usual, chosen))
}

/// Creates objects while an operator runs, and adds its figures.
async fn handle(
    sandbox: &Process,
    client: &Client,
    implementation: Implementation,
    namespace: &str,
    objects: u32,
    runs: &mut Runs,
) -> Result<()> {
    load::namespace(client, namespace).await?;
    let folder = TempDir::new()?;
    let log = std::fs::File::create(folder.path().join("log"))?;
    let running = implementation.start(&sandbox.kubeconfig(), namespace, objects, log)?;
    let server = sandbox.usage()?;
    warm_up(client, &running, namespace).await?;
    let server_before = server.cpu()?;
    let created = create(client, &running, namespace, objects).await?;
    let cpu = server.cpu()?.saturating_sub(server_before);
    runs.server.push(cpu / objects);
    runs.operator.push(created.cpu);
    runs.whole.push(created.whole);
    runs.memory = runs.memory.max(created.peak);
    running.stop().await
}
