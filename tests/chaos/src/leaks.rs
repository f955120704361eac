//! A run in this process and without kills: after the deletion of all objects, the operator must
//! keep no state of them; after its end, no tasks and files of the operator may remain.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kopf::CancellationToken;
use kopf_client::connection;
use kopf_engine::inspect::Inspect;
use kopf_sandbox::fault::{Fault, Verb};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::cluster::{Cluster, USER};
use crate::faults;
use crate::ledger::{Ledger, Reporter};
use crate::operator;
use crate::random::Random;
use crate::report::print_line;
use crate::rounds::settle;
use crate::workload::Workload;

/// Time limit for the release of resources.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn run(seed: u64, length: Duration, most: usize) -> Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let cluster = Cluster::start(seed, &kubeconfig).await?;
    let ledger = Ledger::default();
    let (address, _listening) = ledger.open().await?;
    let reporter = Reporter::connect_to(&address)?;
    let mut random = Random::new(seed).branch(1);
    let mut workload = Workload::default();
    sleep(Duration::from_millis(500)).await;
    let before = Footprint::now()?;

    let engine = operator::builder(reporter).build()?.to_engine();
    let inspect = engine.inspect();
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    let client = connection::from_kubeconfig_file(&kubeconfig, None).await?;
    running.spawn(engine.run(client, stop.clone()));
    let until = Instant::now() + length;
    while Instant::now() < until {
        faults::replace(cluster.sandbox.faults(), &mut random);
        for _ in 0..30 {
            workload.step(&cluster, &mut random, most).await?;
            sleep(random.millis(5..120)).await;
        }
        faults::interrupt(cluster.sandbox.faults(), &mut random);
    }
    cluster.sandbox.faults().clear();
    // Dropped events are noticed only by listing again.
    let outdated = Fault::error(410).verb(Verb::Watch).user(USER);
    let outdated = outdated.kind("kopfexamples.kopf.dev").times(1);
    cluster.sandbox.faults().inject(outdated);
    cluster.sandbox.faults().kill_watches();
    let process = std::process::id();
    let mut findings = settle(&cluster, &workload, &ledger, process, None).await?;
    workload.clean(&cluster).await?;
    cluster.sandbox.faults().kill_watches();
    findings.extend(settle(&cluster, &workload, &ledger, process, None).await?);
    findings.extend(retained_objects(&inspect).await);
    print_line!(
        "leaks: all objects are deleted after {} changes",
        workload.changes
    );

    stop.cancel();
    running
        .join_next()
        .await
        .context("the task of the operator is missing")???;
    // The sandbox runs in this process, and keeps half-open connections until they are reset.
    cluster.sandbox.faults().reset_connections();
    findings.extend(leaked(before).await?);
    cluster.shutdown().await;
    Ok(findings)
}

/// Returns the state of deleted objects that the operator still keeps.
async fn retained_objects(inspect: &Inspect) -> Option<String> {
    let until = Instant::now() + TIMEOUT;
    loop {
        let now = inspect.snapshot();
        if now.objects + now.working + now.sleeping + now.daemons + now.timers == 0 {
            return None;
        }
        if Instant::now() > until {
            return Some(format!("state of deleted objects is leaked: {now:?}"));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the tasks and files that remain after the end of the operator.
async fn leaked(before: Footprint) -> Result<Option<String>> {
    let until = Instant::now() + TIMEOUT;
    loop {
        let now = Footprint::now()?;
        if now.tasks <= before.tasks && now.files <= before.files {
            return Ok(None);
        }
        if Instant::now() > until {
            return Ok(Some(format!(
                "leaked by the operator: {before:?} before, {now:?} after"
            )));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Countable resources of this process.
#[derive(Debug, Clone, Copy)]
struct Footprint {
    tasks: usize,
    /// Open files, including connections.
    files: usize,
}

impl Footprint {
    fn now() -> Result<Self> {
        let files = std::fs::read_dir("/proc/self/fd").context("cannot count open files")?;
        Ok(Self {
            tasks: Handle::current().metrics().num_alive_tasks(),
            files: files.count(),
        })
    }
}
