//! An operator with 10,000 to a million handled objects on a sandbox: its start with streamed and with paged
//! lists, 200 updates per second afterwards, four replicas, and commands that show all objects.
//!
//! The cost of one object must not depend on their number: the slopes between the sizes are compared.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use http::Request;
use kube::Client;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::objects;
use super::replicas::create_handled;
use super::replicas::group::{Cluster, Group, NAMESPACE, Replica, Sharding};
use crate::operators::sibling;
use crate::report::{Report, Target, print_status};
use crate::usage::Usage;

/// Updates per second.
const RATE: u32 = 200;
/// Number of updates: a minute of them.
const UPDATES: u32 = RATE * 60;
/// The operator has handled the last update when it is idle for this time.
const QUIET: Duration = Duration::from_secs(3);
const LIMIT: Duration = Duration::from_secs(1800);
/// Interval of readiness probes and of checks of memory.
const PROBE: Duration = Duration::from_millis(50);
const REPLICAS: usize = 4;

/// How existing objects are requested.
#[derive(Debug, Clone, Copy)]
enum Listing {
    Streamed,
    Paged,
}

impl Listing {
    fn name(self) -> &'static str {
        match self {
            Self::Streamed => "streamed",
            Self::Paged => "paged",
        }
    }
}

/// The figures whose growth is compared between sizes.
#[derive(Debug, Clone, Copy)]
struct Start {
    seconds: f64,
    cpu: f64,
    memory: f64,
    received: f64,
}

pub(crate) async fn measure(report: &mut Report, sizes: &[u32]) -> Result<()> {
    let mut starts = Vec::new();
    for size in sizes {
        print_status(format_args!("{size} objects…"));
        let figures = at(report, *size).await;
        starts.push((*size, figures.with_context(|| format!("{size} objects"))?));
    }
    add_slopes(report, &starts);
    Ok(())
}

async fn at(report: &mut Report, size: u32) -> Result<Start> {
    let cluster = Cluster::start(Sharding::ByServer).await?;
    let own = Usage::of(std::process::id());
    let (began, cpu) = (Instant::now(), own.cpu()?);
    create_handled(&cluster, size).await?;
    let name = |what: &str| format!("{what}, {size} objects");
    let took = began.elapsed().as_secs_f64();
    report.add(
        name("creating them on the sandbox"),
        took,
        "s",
        Target::None,
    );
    let used = own.cpu()?.saturating_sub(cpu).as_secs_f64() * 1000.0;
    let each = used / f64::from(size);
    report.add(
        name("CPU of sandbox and client per created object"),
        each,
        "ms",
        Target::None,
    );
    let memory = own.resident_megabytes()?;
    report.add(
        name("memory of the sandbox with its client"),
        memory,
        "MB",
        Target::None,
    );

    let mut streamed = None;
    for listing in [Listing::Paged, Listing::Streamed] {
        let folder = TempDir::new()?;
        let operator = Operator::start(&cluster, folder.path(), listing).await?;
        let start = operator.ready().await?;
        add_start(report, start, listing, size);
        if let Listing::Streamed = listing {
            updates(report, &cluster, &operator, size).await?;
            streamed = Some(start);
        }
        operator.replica.stop().await?;
    }
    replicas(report, &cluster, size).await?;
    commands(report, &cluster, size).await?;
    cluster.stop().await;
    streamed.context("there is no listing")
}

fn add_start(report: &mut Report, start: Start, listing: Listing, size: u32) {
    let rows = [
        ("time to ready", start.seconds, "s"),
        ("CPU to ready", start.cpu, "s"),
        ("memory when ready", start.memory, "MB"),
        ("received until ready", start.received, "MB"),
    ];
    for (what, value, unit) in rows {
        let what = format!("{what}, {size} objects, {}", listing.name());
        report.add(what, value, unit, Target::None);
    }
}

/// A running operator with its probes.
struct Operator {
    replica: Replica,
    port: u16,
    started: Instant,
    latencies: std::path::PathBuf,
}

impl Operator {
    async fn start(cluster: &Cluster, folder: &Path, listing: Listing) -> Result<Self> {
        let port = free_port()?;
        let latencies = folder.join("latencies");
        let mut command = Command::new(sibling("bench-updates")?);
        command.args(["run", "--standalone", "--namespace", NAMESPACE]);
        command.args(["--liveness", &format!("http://127.0.0.1:{port}/healthz")]);
        command.env("BENCH_LISTING", listing.name());
        command.env("BENCH_LATENCIES", &latencies);
        let started = Instant::now();
        let replica = Replica::start(cluster, folder, "operator", command).await?;
        Ok(Self {
            replica,
            port,
            started,
            latencies,
        })
    }

    /// Waits until it is ready and idle: listed objects are looked at after the list.
    async fn ready(&self) -> Result<Start> {
        while !matches!(get(self.port, "/readyz").await, Ok((200, _))) {
            ensure!(self.started.elapsed() < LIMIT, "not ready after {LIMIT:?}");
            sleep(PROBE).await;
        }
        let seconds = self.started.elapsed().as_secs_f64();
        self.replica.usage()?.quiet(QUIET, LIMIT).await?;
        let counters = self.replica.counters()?;
        Ok(Start {
            seconds,
            cpu: counters.cpu.as_secs_f64(),
            memory: counters.memory,
            received: counters.received,
        })
    }
}

/// Updates objects at a fixed rate, and reports the latencies of the handler.
async fn updates(
    report: &mut Report,
    cluster: &Cluster,
    operator: &Operator,
    size: u32,
) -> Result<()> {
    let usage = operator.replica.usage()?;
    let before = usage.cpu()?;
    let mut ticks = interval(Duration::from_secs(1) / RATE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut running = JoinSet::new();
    for number in 0..UPDATES {
        ticks.tick().await;
        // A prime stride spreads the updates over all objects.
        let object = u64::from(number) * 7919 % u64::from(size);
        running.spawn(update(cluster.client().clone(), object));
        while let Some(done) = running.try_join_next() {
            done??;
        }
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    usage.quiet(QUIET, LIMIT).await?;
    let used = usage.cpu()?.saturating_sub(before).as_secs_f64() * 1000.0;
    let text = std::fs::read_to_string(&operator.latencies)?;
    let latencies: Result<Vec<u32>, _> = text.lines().map(str::parse).collect();
    let mut latencies = latencies?;
    latencies.sort_unstable();
    let count = u32::try_from(latencies.len())?;
    ensure!(
        count >= UPDATES * 9 / 10,
        "only {count} of {UPDATES} updates were handled"
    );
    for (percent, what) in [(50, "p50"), (99, "p99")] {
        let index = latencies.len() * percent / 100;
        let micros = latencies.get(index).context("no latencies")?;
        let what =
            format!("latency to the handler, {what}, {RATE} updates per second, {size} objects");
        report.add(what, f64::from(*micros) / 1000.0, "ms", Target::None);
    }
    let what = format!("CPU per update, {size} objects");
    report.add(what, used / f64::from(count), "ms", Target::None);
    let (began, (status, metrics)) = (Instant::now(), get(operator.port, "/metrics").await?);
    ensure!(status == 200, "/metrics: {status}");
    let what = format!("/metrics, {size} objects");
    report.add(
        what.clone(),
        began.elapsed().as_secs_f64() * 1000.0,
        "ms",
        Target::None,
    );
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    report.add(what, metrics as f64 / 1024.0, "KB", Target::None);
    Ok(())
}

/// Writes the current time into an object.
#[expect(
    clippy::disallowed_methods,
    reason = "the times of two processes are compared"
)]
async fn update(client: Client, number: u64) -> Result<()> {
    let sent = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    let patch = json!({"spec": {"sent": u64::try_from(sent)?}});
    let request = Request::patch(format!("{}/quiet-{number}", objects::path(NAMESPACE)))
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(patch.to_string().into_bytes())?;
    client
        .request_text(request)
        .await
        .context("cannot update")?;
    Ok(())
}

/// Divides the existing objects among replicas.
async fn replicas(report: &mut Report, cluster: &Cluster, size: u32) -> Result<()> {
    let group = Group::start(cluster, REPLICAS, None).await?;
    group.settle().await?;
    let counters = group.counters()?;
    group.stop().await?;
    let largest = |value: fn(&super::replicas::group::Counters) -> f64| {
        counters.iter().map(value).fold(0.0, f64::max)
    };
    let rows = [
        ("CPU", largest(|one| one.cpu.as_secs_f64()), "s"),
        ("memory", largest(|one| one.memory), "MB"),
        ("received", largest(|one| one.received), "MB"),
    ];
    for (what, value, unit) in rows {
        let what = format!("{what}, largest of {REPLICAS} replicas, {size} objects");
        report.add(what, value, unit, Target::None);
    }
    Ok(())
}

/// Runs `kopf get` for all objects.
async fn commands(report: &mut Report, cluster: &Cluster, size: u32) -> Result<()> {
    let folder = TempDir::new()?;
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, cluster.kubeconfig())?;
    let began = Instant::now();
    let mut child = Command::new(sibling("kopf")?)
        .args(["get", "kopfexamples", "--namespace", NAMESPACE])
        .env("KUBECONFIG", &kubeconfig)
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(folder.path().join("out"))?)
        .kill_on_drop(true)
        .spawn()?;
    let usage = Usage::of(child.id().context("kopf get has exited")?);
    let mut peak: f64 = 0.0;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            () = sleep(PROBE) => peak = peak.max(usage.peak_megabytes().unwrap_or_default()),
        }
    };
    ensure!(status.success(), "kopf get: {status}");
    let what = format!("kopf get, {size} objects");
    report.add(
        what.clone(),
        began.elapsed().as_secs_f64(),
        "s",
        Target::None,
    );
    report.add(format!("{what}, peak memory"), peak, "MB", Target::None);
    Ok(())
}

/// Adds the growth per object between two sizes, relative to that between the two sizes before.
fn add_slopes(report: &mut Report, starts: &[(u32, Start)]) {
    let mut slopes = Vec::new();
    for pair in starts.windows(2) {
        let [(few, small), (many, large)] = pair else {
            continue;
        };
        let more = f64::from(*many) - f64::from(*few);
        let rows = [
            (
                "CPU to ready",
                (large.cpu - small.cpu) / more * 1_000_000.0,
                "µs",
            ),
            (
                "memory when ready",
                (large.memory - small.memory) / more * 1024.0 * 1024.0,
                "bytes",
            ),
            (
                "received until ready",
                (large.received - small.received) / more * 1024.0 * 1024.0,
                "bytes",
            ),
            (
                "time to ready",
                (large.seconds - small.seconds) / more * 1_000_000.0,
                "µs",
            ),
        ];
        for (what, slope, unit) in rows {
            let what = format!("{what} per object, from {few} to {many} objects");
            report.add(what, slope, unit, Target::None);
        }
        slopes.push(rows);
    }
    for pair in slopes.windows(2) {
        let [small, large] = pair else { continue };
        for ((what, small, _), (_, large, _)) in small.iter().zip(large) {
            let what = format!("growth of {what} per object");
            report.add(what, large / small, "times", Target::AtMost(1.2));
        }
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Returns the status and the length of a response of the operator.
async fn get(port: u16, path: &str) -> Result<(u16, usize)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await?;
    let text = String::from_utf8_lossy(&response);
    let status = text.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, response.len()))
}
