//! Speed and memory of explorations: of a Python operator in processes, and of an example in this
//! process, in virtual time.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kopf_testing::Lab;
use kopf_testing::explore::scenario;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::sleep;

use crate::operators::python;
use crate::report::{Report, Target, print_status};
use crate::servers;
use crate::usage::Usage;

/// The time for plans, as users give it.
const TIME: &str = "10m";
/// Plans of the exploration with which the memory of the long one is compared.
const FEW: usize = 20;
/// Real time of the explorations in this process.
const LEAST: Duration = Duration::from_secs(20);
const SAMPLING: Duration = Duration::from_millis(100);
const STEPS: &str = "
steps:
- apply: {apiVersion: kopf.dev/v1, kind: KopfExample, metadata: {name: example}, spec: {greet: world}}
- patch: {apiVersion: kopf.dev/v1, kind: KopfExample, name: example, merge: {spec: {greet: you}}}
- delete: {apiVersion: kopf.dev/v1, kind: KopfExample, name: example}
";

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    print_status("Explorations in this process, in virtual time…");
    let (runs, time) = tokio::task::spawn_blocking(in_process).await??;
    report.add(
        "schedules per minute in process",
        f64::from(runs) / time.as_secs_f64() * 60.0,
        "runs",
        Target::AtLeast(2000.0),
    );

    print_status(format_args!(
        "Explorations of an operator in Python, the longer one for {TIME}…"
    ));
    python::install().await?;
    let few = explore(&["--plans", &FEW.to_string()]).await?;
    let all = explore(&["--time", TIME]).await?;
    report.add("plans explored", all.plans, "plans", Target::None);
    report.add(
        "plans per 10 minutes, with the undisturbed runs",
        all.plans / all.seconds * 600.0,
        "plans",
        Target::AtLeast(200.0),
    );
    report.add(
        format!("peak memory of the explorer, {FEW} plans"),
        few.peak_megabytes,
        "MB",
        Target::None,
    );
    report.add(
        "peak memory of the explorer, all plans",
        all.peak_megabytes,
        "MB",
        Target::None,
    );
    Ok(())
}

/// Explores an example until enough real time has passed. Returns the runs and that time.
#[allow(
    clippy::disallowed_methods,
    reason = "the time of tokio is virtual here, and the real one is measured"
)]
fn in_process() -> Result<(u32, Duration)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()?;
    let began = std::time::Instant::now();
    let (mut runs, mut seed) = (0, 0);
    while began.elapsed() < LEAST {
        seed += 1;
        runs += runtime.block_on(explore_greeter(seed))?;
    }
    Ok((runs, began.elapsed()))
}

async fn explore_greeter(seed: u64) -> Result<u32> {
    let crd = std::fs::read_to_string(servers::root().join("examples/crd.yaml"))?;
    let outcome = Lab::new()
        .with(crd.as_str())
        .operator(kopf_examples::greeter::operator().build()?)
        .seed(seed)
        .explore(scenario::parse("steps", STEPS)?)
        .run()
        .await?;
    if let Some(failed) = outcome.failed.first() {
        bail!("a run cannot be done: {}", failed.why);
    }
    Ok(u32::try_from(outcome.runs)?)
}

/// The figures of one exploration by the command.
struct Explored {
    plans: f64,
    seconds: f64,
    peak_megabytes: f64,
}

async fn explore(options: &[&str]) -> Result<Explored> {
    let report = TempDir::new()?;
    let program = std::env::current_exe()?.with_file_name("kopf");
    let mut command = command(&program, options, report.path())?;
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {}: is it built?", program.display()))?;
    let usage = Usage::of(child.id().context("the explorer has exited")?);
    let mut stdout = child.stdout.take().context("stdout is piped")?;
    let mut text = String::new();
    let mut peak_megabytes = 0.0;
    let output = stdout.read_to_string(&mut text);
    tokio::pin!(output);
    loop {
        tokio::select! {
            read = &mut output => {
                read?;
                break;
            }
            () = sleep(SAMPLING) => {
                // The process may have exited.
                peak_megabytes = usage.peak_megabytes().unwrap_or(peak_megabytes);
            }
        }
    }
    let status = child.wait().await?;
    let outcome: Value = serde_json::from_str(&text)
        .with_context(|| format!("the explorer has ended without a report: {status}"))?;
    let figure = |name: &str| {
        let value = outcome.get(name).and_then(Value::as_f64);
        value.with_context(|| format!("the report has no {name}"))
    };
    Ok(Explored {
        plans: figure("done")?,
        seconds: figure("elapsed")?,
        peak_megabytes,
    })
}

/// Returns the command that explores a Python operator with one handler for each change.
fn command(program: &Path, options: &[&str], report: &Path) -> Result<Command> {
    let root = servers::root();
    let operator = python::command()?;
    let operator = operator.as_std();
    let mut command = Command::new(program);
    for (name, value) in operator.get_envs() {
        command.env(name, value.unwrap_or(OsStr::new("")));
    }
    command
        .args(["explore", "--output", "json", "--report"])
        .arg(report)
        .arg("--filename")
        .arg(root.join("examples/crd.yaml"))
        .arg("--object")
        .arg(root.join("examples/obj.yaml"))
        .args(options)
        .arg("--")
        .arg(operator.get_program())
        .args(operator.get_args())
        .args(["run", "--standalone", "--namespace", "default"])
        .arg(root.join("examples/python/05-handlers/handlers.py"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    Ok(command)
}
