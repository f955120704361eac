//! CPU and memory of many timers: 10,000 objects on the sandbox, each with a timer of ten seconds,
//! compared with the same number of sleeping tasks.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::Request;
use kube::Client;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::load;
use crate::operators::implementations::sibling;
use crate::operators::{CREATORS, objects};
use crate::report::{Report, Target, print_status};
use crate::servers::Process;
use crate::usage::Usage;

const OBJECTS: u32 = 10_000;
const NAMESPACE: &str = "bench-timers";
/// The measured time. All timers are called three times.
const WINDOW: Duration = Duration::from_secs(30);
/// The time of listing and of the first calls.
const BEGINNING: Duration = Duration::from_secs(15);
const LIMIT: Duration = Duration::from_secs(300);

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    print_status(format_args!(
        "Operators: {OBJECTS} timers on the sandbox, ours…"
    ));
    let sandbox = Process::start().await?;
    let client = sandbox.client().await?;
    let folder = TempDir::new()?;
    let start = || -> Result<Child> {
        let log = std::fs::File::create(folder.path().join("log"))?;
        spawn(
            Command::new(sibling("bench-timers")?)
                .args(["run", "--standalone", "--namespace", NAMESPACE])
                .env("KUBECONFIG", sandbox.kubeconfig())
                .stderr(log),
        )
    };
    objects::define(&client).await?;
    load::namespace(&client, NAMESPACE).await?;

    let mut running = start()?;
    let empty = figures(&running, BEGINNING, WINDOW).await?;
    objects::create(&client, NAMESPACE, "object", OBJECTS, CREATORS).await?;
    guarded(&client).await?;
    running.kill().await?;
    // Restarted: the memory that the allocator retains from the first calls is not measured.
    let mut running = start()?;
    let timers = figures(&running, BEGINNING, WINDOW).await?;
    running.kill().await?;
    sandbox.stop().await.context("sandbox")?;

    let count = OBJECTS.to_string();
    let mut running = spawn(Command::new(sibling("bench-timers")?).args(["tasks", &count]))?;
    let tasks = figures(&running, BEGINNING, WINDOW).await?;
    running.kill().await?;
    let percent = |cpu: Duration| cpu.as_secs_f64() / WINDOW.as_secs_f64() * 100.0;
    let names = format!("{OBJECTS} timers of 10 seconds");
    report.add(
        format!("CPU of {names}, ours"),
        percent(timers.cpu.saturating_sub(empty.cpu)),
        "% of a processor",
        Target::None,
    );
    report.add(
        format!("CPU of {OBJECTS} tasks that sleep 10 seconds"),
        percent(tasks.cpu),
        "% of a processor",
        Target::None,
    );
    report.add(
        format!("memory per timer and its object, {names}, ours"),
        (timers.megabytes - empty.megabytes) * 1024.0 * 1024.0 / f64::from(OBJECTS),
        "bytes",
        Target::None,
    );
    Ok(())
}

/// The usage of a process while only its timers run.
#[derive(Debug, Clone, Copy)]
struct Figures {
    cpu: Duration,
    megabytes: f64,
}

async fn figures(running: &Child, beginning: Duration, window: Duration) -> Result<Figures> {
    let usage = Usage::of(running.id().context("the implementation has exited")?);
    sleep(beginning).await;
    let before = usage.cpu()?;
    sleep(window).await;
    Ok(Figures {
        cpu: usage.cpu()?.saturating_sub(before),
        megabytes: usage.resident_megabytes()?,
    })
}

fn spawn(command: &mut Command) -> Result<Child> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    command
        .kill_on_drop(true)
        .spawn()
        .context("cannot start bench-timers")
}

/// Waits until all objects have the finalizer, and therefore timers.
async fn guarded(client: &Client) -> Result<()> {
    let began = Instant::now();
    loop {
        let request = Request::get(objects::path(NAMESPACE)).body(Vec::new())?;
        let listed = client.request_text(request).await?;
        let found = listed.matches("KopfFinalizerMarker").count();
        if found >= usize::try_from(OBJECTS)? {
            return Ok(());
        }
        anyhow::ensure!(
            began.elapsed() < LIMIT,
            "{found} of {OBJECTS} objects have timers"
        );
        sleep(Duration::from_secs(2)).await;
    }
}
