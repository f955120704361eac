//! Rounds of faults, each ended by a kill of the operator at a random time. Then a run without
//! faults, in which all objects must reach their final state.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::checks::{background_problems, unsettled, violations};
use crate::cluster::Cluster;
use crate::faults;
use crate::ledger::{ADDRESS, Ledger};
use crate::probing::Probe;
use crate::random::Random;
use crate::report::{Report, print_line};
use crate::workload::Workload;

/// Time limit for reaching the final state after the last fault.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Environment variable of operator processes.
pub(crate) const ROLE: &str = "KOPF_CHAOS_ROLE";

pub(crate) async fn run(seed: u64, length: Duration, most: usize, log: &Path) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let cluster = Cluster::start(seed, &kubeconfig).await?;
    let ledger = Ledger::default();
    let (address, _listening) = ledger.open().await?;
    let probe = Probe::choose().await?;
    let start = || start(&kubeconfig, &address, probe, log);
    let mut random = Random::new(seed);
    let mut workload = Workload::default();
    let mut report = Report::default();
    let until = Instant::now() + length;
    while Instant::now() < until {
        report.rounds += 1;
        let injected = faults::replace(cluster.sandbox.faults(), &mut random);
        print_line!(
            "round {}: {} objects; {}",
            report.rounds,
            workload.live.len(),
            injected.join(", ")
        );
        let mut operator = start()?;
        let life = Instant::now() + random.millis(200..5_000);
        while Instant::now() < life {
            workload.step(&cluster, &mut random, most).await?;
            if random.number(0..20) == 0 {
                faults::interrupt(cluster.sandbox.faults(), &mut random);
            }
            sleep(random.millis(5..120)).await;
        }
        if let Some(status) = operator.try_wait()? {
            report
                .findings
                .push(format!("the operator exited unexpectedly: {status}"));
        } else {
            operator.kill().await?;
            report.kills += 1;
        }
    }

    cluster.sandbox.faults().clear();
    print_line!("recovery: {} objects", workload.live.len());
    let mut operator = start()?;
    let process = operator.id().unwrap_or_default();
    report
        .findings
        .extend(settle(&cluster, &workload, &ledger, process, Some(probe)).await?);
    workload.clean(&cluster).await?;
    report
        .findings
        .extend(settle(&cluster, &workload, &ledger, process, Some(probe)).await?);
    report.findings.extend(end(&mut operator).await?);

    let entries = ledger.entries();
    report
        .findings
        .extend(violations(&entries, &cluster.history, &workload));
    report.changes = workload.changes;
    report.calls = entries.len();
    report.versions = cluster.history.len();
    report.faults = cluster.sandbox.faults().injected();
    cluster.shutdown().await;
    Ok(report)
}

fn start(kubeconfig: &Path, ledger: &str, probe: Probe, log: &Path) -> Result<Child> {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(log)?;
    Command::new(std::env::current_exe()?)
        .args(["run", "--standalone", "--namespace", "default", "--verbose"])
        .arg(probe.option())
        .env(ROLE, "operator")
        .env(ADDRESS, ledger)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the operator")
}

/// Waits for the final state. Returns the remaining problems after [`TIMEOUT`].
pub(crate) async fn settle(
    cluster: &Cluster,
    workload: &Workload,
    ledger: &Ledger,
    process: u32,
    probe: Option<Probe>,
) -> Result<Vec<String>> {
    let until = Instant::now() + TIMEOUT;
    loop {
        let objects = cluster.list().await?;
        let mut problems = unsettled(&objects, workload);
        problems.extend(background_problems(&ledger.entries(), process, &objects));
        if let Some(probe) = probe {
            problems.extend(probe.problem(objects.len()).await);
        }
        if problems.is_empty() || Instant::now() > until {
            return Ok(problems);
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Stops the operator by SIGTERM, like a cluster. Returns a problem if it does not exit with 0.
async fn end(operator: &mut Child) -> Result<Option<String>> {
    let Some(process) = operator.id() else {
        bail!("the operator exited unexpectedly");
    };
    let kill = Command::new("kill")
        .args(["-TERM", &process.to_string()])
        .status();
    anyhow::ensure!(kill.await?.success(), "cannot send SIGTERM to the operator");
    match timeout(Duration::from_secs(30), operator.wait()).await {
        Ok(status) => {
            let status = status?;
            Ok((!status.success()).then(|| format!("the operator failed: {status}")))
        }
        Err(_) => Ok(Some("the operator does not exit after SIGTERM".to_owned())),
    }
}
