//! The same in one process and without kills: when all objects are gone, nothing of them is left; when
//! the operator is gone, nothing of it is left.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kopf::CancellationToken;
use kopf_client::connection;
use kopf_engine::inspect::Inspect;
use kopf_sandbox::fault::{Fault, Verb};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::chance::Chance;
use crate::cluster::{Cluster, USER};
use crate::ledger::{Ledger, Reporter};
use crate::operator;
use crate::report::tell;
use crate::rounds::settle;
use crate::trouble;
use crate::workload::Workload;

/// How long what has ended may take to be gone.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn run(seed: u64, length: Duration, most: usize) -> Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let cluster = Cluster::start(seed, &kubeconfig).await?;
    let ledger = Ledger::default();
    let (address, _listening) = ledger.open().await?;
    let reporter = Reporter::connect_to(&address)?;
    let mut chance = Chance::new(seed).branch(1);
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
        trouble::stir(cluster.sandbox.faults(), &mut chance);
        for _ in 0..30 {
            workload.step(&cluster, &mut chance, most).await?;
            sleep(chance.millis(5..120)).await;
        }
        trouble::blow(cluster.sandbox.faults(), &mut chance);
    }
    cluster.sandbox.faults().clear();
    // Events that were dropped are noticed when everything is listed again, and not before.
    let outdated = Fault::error(410).verb(Verb::Watch).user(USER);
    let outdated = outdated.kind("kopfexamples.kopf.dev").times(1);
    cluster.sandbox.faults().inject(outdated);
    cluster.sandbox.faults().kill_watches();
    let process = std::process::id();
    let mut findings = settle(&cluster, &workload, &ledger, process, None).await?;
    workload.clean(&cluster).await?;
    cluster.sandbox.faults().kill_watches();
    findings.extend(settle(&cluster, &workload, &ledger, process, None).await?);
    findings.extend(remembered(&inspect).await);
    tell!(
        "leaks: all objects are gone, {} changes were made",
        workload.changes
    );

    stop.cancel();
    running
        .join_next()
        .await
        .context("the operator is lost")???;
    // The sandbox is in this process, too, and its half-open connections stay so until then.
    cluster.sandbox.faults().reset_connections();
    findings.extend(left(before).await?);
    cluster.shutdown().await;
    Ok(findings)
}

/// What the operator remembers of objects that are gone.
async fn remembered(inspect: &Inspect) -> Option<String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let now = inspect.snapshot();
        if now.objects + now.working + now.sleeping + now.daemons + now.timers == 0 {
            return None;
        }
        if Instant::now() > until {
            return Some(format!("leaked although no objects are left: {now:?}"));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// What the operator has left behind.
async fn left(before: Footprint) -> Result<Option<String>> {
    let until = Instant::now() + PATIENCE;
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

/// What a process has that can leak and be counted.
#[derive(Debug, Clone, Copy)]
struct Footprint {
    tasks: usize,
    /// Open files, connections among them.
    files: usize,
}

impl Footprint {
    fn now() -> Result<Self> {
        let files = std::fs::read_dir("/proc/self/fd").context("open files cannot be counted")?;
        Ok(Self {
            tasks: Handle::current().metrics().num_alive_tasks(),
            files: files.count(),
        })
    }
}
