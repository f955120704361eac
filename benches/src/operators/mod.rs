//! Operators that do the same work, one after another on the same real control plane: a create
//! handler that returns a small object. Each object is patched twice, with its diff-base and with
//! its result.
//!
//! Three scenarios are measured for each operator: objects created while it runs, a restart with
//! the same, handled objects, and a start with a backlog of new objects.

mod entry;
mod handled;
mod implementations;
pub(crate) mod million;
mod objects;
pub(crate) mod python;
pub(crate) mod quiet;
pub(crate) mod replicas;
pub(crate) mod reviews;
pub(crate) mod timers;
pub(crate) mod variants;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use tempfile::TempDir;
use tokio::time::Instant;

use self::handled::Handled;
use self::implementations::Running;
pub(crate) use self::implementations::{Implementation, sibling};
use crate::load;
use crate::report::{Report, Target, print_status};
use crate::servers::ControlPlane;

/// Number of tasks that create objects.
const CREATORS: u32 = 32;
/// Objects handled before the measurement, to warm up connections and code paths.
const WARM_UP: u32 = 20;
/// An operator that is idle for this time has finished its work.
const QUIET: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(300);

/// The environment of the benchmark.
pub(crate) struct Bench {
    control_plane: ControlPlane,
    client: Client,
    objects: u32,
    folder: TempDir,
}

/// The results of one implementation.
#[derive(Debug)]
struct Figures {
    implementation: Implementation,
    per_object: Duration,
    peak: f64,
    resume: Duration,
    throughput: Throughput,
}

/// The handling of a backlog.
#[derive(Debug, Clone, Copy)]
struct Throughput {
    per_second: f64,
    peak: f64,
    /// Including the start of the process.
    cpu: Duration,
}

/// Measures the implementations, and reports the figures at the end, grouped by measurement.
pub(crate) async fn measure(
    report: &mut Report,
    implementations: &[Implementation],
    objects: u32,
) -> Result<()> {
    for implementation in implementations {
        implementation.install().await?;
    }
    let control_plane = ControlPlane::start().await?;
    let client = control_plane.client().await?;
    objects::define(&client).await?;
    let bench = Bench {
        control_plane,
        client,
        objects,
        folder: TempDir::new()?,
    };
    let mut figures = Vec::new();
    // Warm-up: a server is slower after its start.
    bench.backlog(Implementation::Raw, 0).await?;
    // The speed of the server changes over time: each implementation is compared with the raw
    // client immediately before and after it.
    let mut raw = vec![bench.backlog(Implementation::Raw, 1).await?];
    for (round, implementation) in implementations.iter().enumerate() {
        let name = implementation.name();
        print_status(format_args!("Operators: {objects} objects, {name}…"));
        let measured = bench.figures(*implementation).await;
        figures.push(measured.with_context(|| format!("{name}; its log:\n{}", bench.log_end()))?);
        raw.push(bench.backlog(Implementation::Raw, round + 2).await?);
    }
    add(report, &figures, &raw, objects);
    if implementations.contains(&Implementation::Ours) {
        entry::measure(report, &bench).await?;
    }
    bench.control_plane.stop().await
}

impl Bench {
    fn start(&self, implementation: Implementation, namespace: &str) -> Result<Running> {
        let log = std::fs::File::create(self.log())?;
        implementation.start(
            self.control_plane.kubeconfig(),
            namespace,
            self.objects,
            log,
        )
    }

    /// Returns the log file of the implementation that was started last.
    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn log_end(&self) -> String {
        log_end(&self.log())
    }

    async fn figures(&self, implementation: Implementation) -> Result<Figures> {
        // The backlog goes first, as it is compared with the raw client before it.
        let throughput = self.backlog(implementation, 0).await.context("backlog")?;
        let namespace = format!("bench-{implementation:?}").to_lowercase();
        load::namespace(&self.client, &namespace).await?;
        let (per_object, peak) = self
            .live(implementation, &namespace)
            .await
            .context("created")?;
        let resume = self
            .resume(implementation, &namespace)
            .await
            .context("resume")?;
        Ok(Figures {
            implementation,
            per_object,
            peak,
            resume,
            throughput,
        })
    }

    /// Creates objects while it runs. Returns the CPU time per object and the peak memory.
    async fn live(
        &self,
        implementation: Implementation,
        namespace: &str,
    ) -> Result<(Duration, f64)> {
        let running = self.start(implementation, namespace)?;
        warm_up(&self.client, &running, namespace).await?;
        let created = create(&self.client, &running, namespace, self.objects).await?;
        running.stop().await?;
        Ok((created.cpu, created.peak))
    }

    /// Starts it with handled objects. Returns the CPU time until it is idle.
    async fn resume(&self, implementation: Implementation, namespace: &str) -> Result<Duration> {
        let running = self.start(implementation, namespace)?;
        let usage = running.usage()?;
        usage.quiet(QUIET, LIMIT).await?;
        let time = usage.cpu()?;
        running.stop().await?;
        Ok(time)
    }

    /// Starts it with a backlog of objects. Returns the throughput without start and end.
    async fn backlog(&self, implementation: Implementation, round: usize) -> Result<Throughput> {
        let (client, objects) = (&self.client, self.objects);
        let namespace = format!("bench-backlog-{implementation:?}-{round}").to_lowercase();
        load::namespace(client, &namespace).await?;
        objects::create(client, &namespace, "object", objects, CREATORS).await?;
        let handled = Handled::watch(client, &namespace, "object", objects).await?;
        let running = self.start(implementation, &namespace)?;
        let usage = running.usage()?;
        let times = handled.times().await?;
        let (peak, cpu) = (usage.peak_megabytes()?, usage.cpu()?);
        running.stop().await?;
        // Without the start, and without the end, when some connections are idle.
        let (first, last) = (times.len() / 20, times.len() * 19 / 20);
        let (Some(began), Some(ended)) = (times.get(first), times.get(last)) else {
            anyhow::bail!("too few objects to measure");
        };
        let per_second = load::rate(u32::try_from(last - first)?, *ended - *began);
        Ok(Throughput {
            per_second,
            peak,
            cpu,
        })
    }
}

/// The handling of objects that are created while an operator runs.
#[derive(Debug, Clone, Copy)]
struct Created {
    /// CPU time of the operator per object.
    cpu: Duration,
    /// Peak memory of the operator, in megabytes.
    peak: f64,
    /// Time from the first creation until the last object is handled.
    whole: Duration,
}

async fn warm_up(client: &Client, running: &Running, namespace: &str) -> Result<()> {
    let warm = Handled::watch(client, namespace, "warm", WARM_UP).await?;
    objects::create(client, namespace, "warm", WARM_UP, 1).await?;
    warm.times().await.context("warm-up")?;
    running.usage()?.quiet(QUIET, LIMIT).await
}

async fn create(
    client: &Client,
    running: &Running,
    namespace: &str,
    objects: u32,
) -> Result<Created> {
    let usage = running.usage()?;
    let before = usage.cpu()?;
    let handled = Handled::watch(client, namespace, "object", objects).await?;
    let began = Instant::now();
    objects::create(client, namespace, "object", objects, CREATORS).await?;
    let times = handled.times().await?;
    let ended = times.last().context("no object is handled")?;
    // The events of its own patches are part of the work.
    usage.quiet(QUIET, LIMIT).await?;
    Ok(Created {
        cpu: usage.cpu()?.saturating_sub(before) / objects,
        peak: usage.peak_megabytes()?,
        whole: ended.duration_since(began),
    })
}

/// Adds all figures. Targets apply to our operator only.
fn add(report: &mut Report, figures: &[Figures], raw: &[Throughput], objects: u32) {
    let budget = |implementation, target| match implementation {
        Implementation::Ours => target,
        _ => Target::None,
    };
    let python = |implementation, limit| match implementation {
        Implementation::Python | Implementation::PythonSync => Some(Target::AtMost(limit)),
        _ => None,
    };
    for figure in figures {
        report.add(
            format!("CPU per created object, {}", figure.implementation.name()),
            figure.per_object.as_secs_f64() * 1000.0,
            "ms",
            match figure.implementation {
                Implementation::Python => Target::AtMost(1.0),
                Implementation::PythonSync => Target::AtMost(1.3),
                _ => Target::None,
            },
        );
    }
    add_cpu_ratios(report, figures, raw, objects);
    for figure in figures {
        report.add(
            format!(
                "peak memory, {objects} objects created, {}",
                figure.implementation.name()
            ),
            figure.peak,
            "MB",
            python(figure.implementation, 70.0)
                .unwrap_or_else(|| budget(figure.implementation, Target::AtMost(24.0))),
        );
    }
    for figure in figures {
        report.add(
            format!(
                "peak memory, {objects} objects waiting at the start, {}",
                figure.implementation.name()
            ),
            figure.throughput.peak,
            "MB",
            Target::None,
        );
    }
    let mean = |raw: &[Throughput]| {
        let (sum, count) = raw.iter().fold((0.0, 0.0), |(sum, count), raw| {
            (sum + raw.per_second, count + 1.0)
        });
        sum / count
    };
    for figure in figures {
        report.add(
            format!("throughput, {}", figure.implementation.name()),
            figure.throughput.per_second,
            "objects per second",
            Target::None,
        );
    }
    report.add(
        format!("throughput, {}", Implementation::Raw.name()),
        mean(raw),
        "objects per second",
        Target::None,
    );
    for (figure, around) in figures.iter().zip(raw.windows(2)) {
        report.add(
            format!("throughput, {} / raw client", figure.implementation.name()),
            figure.throughput.per_second / mean(around),
            "times",
            budget(figure.implementation, Target::AtLeast(0.95)),
        );
    }
    for figure in figures {
        report.add(
            format!(
                "CPU to resume {objects} handled objects, {}",
                figure.implementation.name()
            ),
            figure.resume.as_secs_f64(),
            "s",
            python(figure.implementation, 0.5)
                .unwrap_or_else(|| budget(figure.implementation, Target::AtMost(0.25))),
        );
    }
}

/// Adds the CPU time of the raw client, and ours relative to the others.
fn add_cpu_ratios(report: &mut Report, figures: &[Figures], raw: &[Throughput], objects: u32) {
    let patched: Duration = raw.iter().map(|raw| raw.cpu).sum();
    let rounds = u32::try_from(raw.len()).unwrap_or(u32::MAX);
    let patched = patched.as_secs_f64() / f64::from(rounds) / f64::from(objects);
    report.add(
        format!("CPU per patched object, {}", Implementation::Raw.name()),
        patched * 1000.0,
        "ms",
        Target::None,
    );
    let per_object = |implementation| {
        let mut figures = figures.iter();
        let figure = figures.find(|figure| figure.implementation == implementation)?;
        Some(figure.per_object.as_secs_f64())
    };
    let Some(ours) = per_object(Implementation::Ours) else {
        return;
    };
    let others = [
        (Implementation::Kube, Target::AtMost(0.5)),
        (Implementation::Original, Target::None),
    ];
    for (other, target) in others {
        if let Some(theirs) = per_object(other) {
            let what = format!("CPU per object, ours / {}", other.name());
            report.add(what, ours / theirs, "times", target);
        }
    }
    report.add(
        "CPU per object, ours / raw client",
        ours / patched,
        "times",
        Target::AtMost(1.5),
    );
}

/// Returns the end of an operator's log.
fn log_end(path: &Path) -> String {
    let log = std::fs::read(path).unwrap_or_default();
    let end = log.get(log.len().saturating_sub(3000)..);
    String::from_utf8_lossy(end.unwrap_or_default()).into_owned()
}
