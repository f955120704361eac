//! Operators that do the same work, one after another on the same real control plane: a create handler
//! that returns a small object, so that each object gets two patches, its essence and its result.
//!
//! Measured are three plays for each of them: objects that are created while it runs, the same objects when
//! it starts again and finds nothing to do, and objects that wait for it when it starts.

mod contestants;
mod entry;
mod handled;
pub(crate) mod metrics;
mod objects;
mod python;
pub(crate) mod quiet;
pub(crate) mod replicas;
pub(crate) mod reviews;
pub(crate) mod timers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use tempfile::TempDir;

pub(crate) use self::contestants::Contestant;
use self::contestants::Running;
use self::handled::Handled;
use crate::load;
use crate::report::{Report, Target, tell};
use crate::servers::ControlPlane;

/// What creates objects while operators handle them.
const CREATORS: u32 = 32;
/// Handled before it is measured: connections, and code that was never run before.
const WARM_UP: u32 = 20;
/// An operator without any work for so long has done what it had to.
const QUIET: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(300);

/// What is measured, and on what.
pub(crate) struct Bench {
    control_plane: ControlPlane,
    client: Client,
    objects: u32,
    folder: TempDir,
}

/// What a contestant's plays came to.
#[derive(Debug)]
struct Figures {
    contestant: Contestant,
    per_object: Duration,
    peak: f64,
    resume: Duration,
    throughput: Throughput,
}

/// How objects that waited were handled.
#[derive(Debug, Clone, Copy)]
struct Throughput {
    per_second: f64,
    peak: f64,
    /// With the start of the process.
    cpu: Duration,
}

/// Measures the contestants, and tells all figures at the end, like beside like.
pub(crate) async fn measure(
    report: &mut Report,
    contestants: &[Contestant],
    objects: u32,
) -> Result<()> {
    for contestant in contestants {
        contestant.install().await?;
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
    // A server that has just started is slower: this round is not counted.
    bench.backlog(Contestant::Raw, 0).await?;
    // The server gets slower or faster with time: each is held against the raw client right before
    // and right after it.
    let mut raw = vec![bench.backlog(Contestant::Raw, 1).await?];
    for (round, contestant) in contestants.iter().enumerate() {
        let name = contestant.name();
        tell(format_args!("Operators: {objects} objects, {name}…"));
        let measured = bench.figures(*contestant).await;
        figures.push(measured.with_context(|| format!("{name}; it says:\n{}", bench.log_end()))?);
        raw.push(bench.backlog(Contestant::Raw, round + 2).await?);
    }
    add(report, &figures, &raw, objects);
    if contestants.contains(&Contestant::Ours) {
        entry::measure(report, &bench).await?;
    }
    bench.control_plane.stop().await
}

impl Bench {
    fn start(&self, contestant: Contestant, namespace: &str) -> Result<Running> {
        let log = std::fs::File::create(self.log())?;
        contestant.start(
            self.control_plane.kubeconfig(),
            namespace,
            self.objects,
            log,
        )
    }

    /// Of the contestant that was started last.
    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn log_end(&self) -> String {
        log_end(&self.log())
    }

    async fn figures(&self, contestant: Contestant) -> Result<Figures> {
        // The one that is compared with the raw client goes first, to be near to it.
        let throughput = self.backlog(contestant, 0).await.context("a backlog")?;
        let namespace = format!("bench-{contestant:?}").to_lowercase();
        load::namespace(&self.client, &namespace).await?;
        let (per_object, peak) = self.live(contestant, &namespace).await.context("created")?;
        let resume = self
            .resume(contestant, &namespace)
            .await
            .context("resume")?;
        Ok(Figures {
            contestant,
            per_object,
            peak,
            resume,
            throughput,
        })
    }

    /// Objects are created while it runs: its time on processors for each, and its memory at most.
    async fn live(&self, contestant: Contestant, namespace: &str) -> Result<(Duration, f64)> {
        let (client, objects) = (&self.client, self.objects);
        let running = self.start(contestant, namespace)?;
        let usage = running.usage()?;
        let warm = Handled::watch(client, namespace, "warm", WARM_UP).await?;
        objects::create(client, namespace, "warm", WARM_UP, 1).await?;
        warm.times().await.context("the first ones")?;
        usage.quiet(QUIET, LIMIT).await?;
        let before = usage.cpu()?;
        let handled = Handled::watch(client, namespace, "object", objects).await?;
        objects::create(client, namespace, "object", objects, CREATORS).await?;
        handled.times().await?;
        // Its own patches come back to it as events: part of the work.
        usage.quiet(QUIET, LIMIT).await?;
        let figures = (
            usage.cpu()?.saturating_sub(before) / objects,
            usage.peak_megabytes()?,
        );
        running.stop().await?;
        Ok(figures)
    }

    /// It starts with objects that it has handled before, and finds that nothing is to be done.
    async fn resume(&self, contestant: Contestant, namespace: &str) -> Result<Duration> {
        let running = self.start(contestant, namespace)?;
        let usage = running.usage()?;
        usage.quiet(QUIET, LIMIT).await?;
        let time = usage.cpu()?;
        running.stop().await?;
        Ok(time)
    }

    /// It starts with objects that wait for it: how fast it is in the middle of them.
    async fn backlog(&self, contestant: Contestant, round: usize) -> Result<Throughput> {
        let (client, objects) = (&self.client, self.objects);
        let namespace = format!("bench-backlog-{contestant:?}-{round}").to_lowercase();
        load::namespace(client, &namespace).await?;
        objects::create(client, &namespace, "object", objects, CREATORS).await?;
        let handled = Handled::watch(client, &namespace, "object", objects).await?;
        let running = self.start(contestant, &namespace)?;
        let usage = running.usage()?;
        let times = handled.times().await?;
        let (peak, cpu) = (usage.peak_megabytes()?, usage.cpu()?);
        running.stop().await?;
        // Without the start, and without the end, when some connections are idle already.
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

/// Adds all figures: budgets are ours, the others are there to compare.
fn add(report: &mut Report, figures: &[Figures], raw: &[Throughput], objects: u32) {
    let budget = |contestant, target| match contestant {
        Contestant::Ours => target,
        _ => Target::None,
    };
    let python = |contestant, limit| match contestant {
        Contestant::Python | Contestant::PythonSync => Some(Target::AtMost(limit)),
        _ => None,
    };
    for figure in figures {
        report.add(
            format!("CPU per created object, {}", figure.contestant.name()),
            figure.per_object.as_secs_f64() * 1000.0,
            "ms",
            match figure.contestant {
                Contestant::Python => Target::AtMost(1.0),
                Contestant::PythonSync => Target::AtMost(1.3),
                _ => Target::None,
            },
        );
    }
    add_cpu_ratios(report, figures, raw, objects);
    for figure in figures {
        report.add(
            format!(
                "peak memory, {objects} objects created, {}",
                figure.contestant.name()
            ),
            figure.peak,
            "MB",
            python(figure.contestant, 70.0)
                .unwrap_or_else(|| budget(figure.contestant, Target::AtMost(24.0))),
        );
    }
    for figure in figures {
        report.add(
            format!(
                "peak memory, {objects} objects waiting at the start, {}",
                figure.contestant.name()
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
            format!("throughput, {}", figure.contestant.name()),
            figure.throughput.per_second,
            "objects per second",
            Target::None,
        );
    }
    report.add(
        format!("throughput, {}", Contestant::Raw.name()),
        mean(raw),
        "objects per second",
        Target::None,
    );
    for (figure, around) in figures.iter().zip(raw.windows(2)) {
        report.add(
            format!("throughput, {} / raw client", figure.contestant.name()),
            figure.throughput.per_second / mean(around),
            "times",
            budget(figure.contestant, Target::AtLeast(0.95)),
        );
    }
    for figure in figures {
        report.add(
            format!(
                "CPU to resume {objects} handled objects, {}",
                figure.contestant.name()
            ),
            figure.resume.as_secs_f64(),
            "s",
            python(figure.contestant, 0.5)
                .unwrap_or_else(|| budget(figure.contestant, Target::AtMost(0.25))),
        );
    }
}

/// Adds the processor time of the raw client, and ours relative to the others.
fn add_cpu_ratios(report: &mut Report, figures: &[Figures], raw: &[Throughput], objects: u32) {
    let patched: Duration = raw.iter().map(|raw| raw.cpu).sum();
    let rounds = u32::try_from(raw.len()).unwrap_or(u32::MAX);
    let patched = patched.as_secs_f64() / f64::from(rounds) / f64::from(objects);
    report.add(
        format!("CPU per patched object, {}", Contestant::Raw.name()),
        patched * 1000.0,
        "ms",
        Target::None,
    );
    let per_object = |contestant| {
        let mut figures = figures.iter();
        let figure = figures.find(|figure| figure.contestant == contestant)?;
        Some(figure.per_object.as_secs_f64())
    };
    let Some(ours) = per_object(Contestant::Ours) else {
        return;
    };
    let others = [
        (Contestant::Kube, Target::AtMost(0.5)),
        (Contestant::Original, Target::None),
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
