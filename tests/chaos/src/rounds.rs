//! Round after round: the operator lives for a while amid troubles, and is killed in an unlucky moment.
//! Then it is left in peace, and everything must come to a good end.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::chance::Chance;
use crate::cluster::Cluster;
use crate::judging::{astray, unsettled, violations};
use crate::ledger::{ADDRESS, Ledger};
use crate::probing::Probe;
use crate::report::{Report, tell};
use crate::trouble;
use crate::workload::Workload;

/// How long it may take until all is well after the last trouble.
const PATIENCE: Duration = Duration::from_secs(120);

/// By which the process knows that it is the operator.
pub(crate) const ROLE: &str = "KOPF_CHAOS_ROLE";

pub(crate) async fn run(seed: u64, length: Duration, most: usize, log: &Path) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let cluster = Cluster::start(seed, &kubeconfig).await?;
    let ledger = Ledger::default();
    let (address, _listening) = ledger.open().await?;
    let probe = Probe::choose().await?;
    let start = || start(&kubeconfig, &address, probe, log);
    let mut chance = Chance::new(seed);
    let mut workload = Workload::default();
    let mut report = Report::default();
    let until = Instant::now() + length;
    while Instant::now() < until {
        report.rounds += 1;
        let troubles = trouble::stir(cluster.sandbox.faults(), &mut chance);
        tell!(
            "round {}: {} objects; {}",
            report.rounds,
            workload.live.len(),
            troubles.join(", ")
        );
        let mut operator = start()?;
        let life = Instant::now() + chance.millis(200..5_000);
        while Instant::now() < life {
            workload.step(&cluster, &mut chance, most).await?;
            if chance.number(0..20) == 0 {
                trouble::blow(cluster.sandbox.faults(), &mut chance);
            }
            sleep(chance.millis(5..120)).await;
        }
        if let Some(status) = operator.try_wait()? {
            report
                .findings
                .push(format!("the operator has ended by itself: {status}"));
        } else {
            operator.kill().await?;
            report.kills += 1;
        }
    }

    cluster.sandbox.faults().clear();
    tell!(
        "peace: {} objects are to be brought to their end",
        workload.live.len()
    );
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
        .context("the operator cannot be started")
}

/// Waits until all is as it should be; says what is not, if that takes too long.
pub(crate) async fn settle(
    cluster: &Cluster,
    workload: &Workload,
    ledger: &Ledger,
    process: u32,
    probe: Option<Probe>,
) -> Result<Vec<String>> {
    let until = Instant::now() + PATIENCE;
    loop {
        let objects = cluster.list().await?;
        let mut problems = unsettled(&objects, workload);
        problems.extend(astray(&ledger.entries(), process, &objects));
        if let Some(probe) = probe {
            problems.extend(probe.complaint(objects.len()).await);
        }
        if problems.is_empty() || Instant::now() > until {
            return Ok(problems);
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Ends the operator as a cluster would do it.
async fn end(operator: &mut Child) -> Result<Option<String>> {
    let Some(process) = operator.id() else {
        bail!("the operator has ended by itself");
    };
    let kill = Command::new("kill")
        .args(["-TERM", &process.to_string()])
        .status();
    anyhow::ensure!(kill.await?.success(), "the operator cannot be told to end");
    match timeout(Duration::from_secs(30), operator.wait()).await {
        Ok(status) => {
            let status = status?;
            Ok((!status.success()).then(|| format!("the operator has not ended well: {status}")))
        }
        Err(_) => Ok(Some("the operator does not end".to_owned())),
    }
}
