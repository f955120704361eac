//! Admission reviews with a trivial validating handler over keep-alive TLS connections: rate,
//! latency and CPU time of the server. The operators run one after another with the same
//! certificate and the same client.

mod client;
mod request;
mod response;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use self::client::{CONNECTIONS, Client, Until};
use self::request::{ReviewRequest, Shape};
use super::implementations::{Implementation, original, sibling};
use super::{log_end, objects, python};
use crate::report::{Report, Target, percentile, print_status};
use crate::servers::{self, Process};
use crate::usage::Usage;

/// The compared operators.
const REVIEWERS: [Implementation; 3] = [
    Implementation::Original,
    Implementation::Python,
    Implementation::Ours,
];
const WARM_UP: Duration = Duration::from_secs(2);
const WINDOW: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(60);
/// Number of concurrent reviews with many values.
const DENSE_REVIEWS: u32 = 8;
/// Number of values of such a review: 1.2 MB.
const DENSE_VALUES: usize = 100_000;
/// Maximum time of such a review, in milliseconds.
const DENSE_TARGET: f64 = 3_000.0;

/// The results of one operator.
struct Figures {
    per_second: f64,
    /// Reviews per second of CPU time of the server.
    per_cpu_second: f64,
    /// The client's share of the CPU time, in percent.
    client_share: f64,
    median: f64,
    worst: f64,
    failures: Vec<anyhow::Error>,
}

pub(crate) async fn measure(
    report: &mut Report,
    implementations: &[Implementation],
    reviews: u32,
) -> Result<()> {
    let sandbox = Process::start().await?;
    objects::define(&sandbox.client().await?).await?;
    let bench = Bench::new(&sandbox.kubeconfig()).await?;
    let mut all = Vec::new();
    for implementation in REVIEWERS {
        if !implementations.contains(&implementation) {
            continue;
        }
        print_status(format_args!(
            "Operators: reviews, {}…",
            implementation.name()
        ));
        implementation.install().await?;
        let mut running = bench.start(implementation)?;
        let measured = measure_one(report, &bench, implementation, &mut running).await;
        let measured = match measured {
            Ok((figures, server)) if implementation == Implementation::Ours => {
                let memory = measure_memory(report, &bench, server, reviews).await;
                memory.map(|()| figures)
            }
            measured => measured.map(|(figures, _)| figures),
        };
        let measured = measured.with_context(|| {
            let log = log_end(&bench.log());
            format!("reviews, {}; its log:\n{log}", implementation.name())
        })?;
        all.push((implementation, measured));
        // The next one listens on the same port.
        running.kill().await?;
    }
    let find = |wanted| {
        let mut all = all
            .iter()
            .filter(|(implementation, _)| *implementation == wanted);
        all.next().map(|(_, figures)| figures)
    };
    if let (Some(original), Some(python)) =
        (find(Implementation::Original), find(Implementation::Python))
    {
        report.add(
            "reviews, ours in Python / the original",
            python.per_second / original.per_second,
            "times",
            Target::AtLeast(5.0),
        );
    }
    if let (Some(original), Some(ours)) =
        (find(Implementation::Original), find(Implementation::Ours))
    {
        report.add(
            "reviews, ours / the original",
            ours.per_second / original.per_second,
            "times",
            Target::None,
        );
        report.add(
            "reviews per second of processor time, ours / the original",
            ours.per_cpu_second / original.per_cpu_second,
            "times",
            Target::AtLeast(20.0),
        );
        report.add(
            "99 % of reviews, ours / the original",
            ours.worst / original.worst,
            "times",
            Target::AtMost(0.1),
        );
    }
    sandbox.stop().await
}

async fn measure_one(
    report: &mut Report,
    bench: &Bench,
    implementation: Implementation,
    running: &mut Child,
) -> Result<(Figures, Usage)> {
    let server = Usage::of(running.id().context("the operator has exited")?);
    bench.ready(running).await?;
    bench.warm_up().await.context("warm-up")?;
    let figures = bench.figures(server).await?;
    add(report, implementation, &figures);
    if implementation != Implementation::Original {
        measure_dense(report, bench, implementation, server).await?;
    }
    Ok((figures, server))
}

/// Measures concurrent reviews of objects with very many small values.
async fn measure_dense(
    report: &mut Report,
    bench: &Bench,
    implementation: Implementation,
    server: Usage,
) -> Result<()> {
    for (shape, what) in [(Shape::Strings, "strings"), (Shape::Objects, "objects")] {
        let request = ReviewRequest::dense(shape, DENSE_VALUES)?;
        let client = bench.client.with_request(request, DENSE_REVIEWS);
        let outcome = client.review(Until::Count(DENSE_REVIEWS)).await?;
        let name = implementation.name();
        add_failures(report, format!("{what}, {name}"), &outcome.failures);
        report.add(
            format!("{DENSE_REVIEWS} reviews of {DENSE_VALUES} {what} within, {name}"),
            percentile(outcome.times, 100),
            "ms",
            Target::AtMost(DENSE_TARGET),
        );
        let memory = server.resident_megabytes()?;
        report.add(
            format!("memory after these reviews of {what}, {name}"),
            memory,
            "MB",
            Target::None,
        );
    }
    Ok(())
}

fn add(report: &mut Report, implementation: Implementation, figures: &Figures) {
    let name = implementation.name();
    let rows = [
        (
            format!("reviews by {CONNECTIONS} connections, {name}"),
            figures.per_second,
            "per second",
        ),
        (
            format!("reviews per second of processor time, {name}"),
            figures.per_cpu_second,
            "per second",
        ),
        (
            format!("the client's part of processor time, {name}"),
            figures.client_share,
            "%",
        ),
        (format!("half of them within, {name}"), figures.median, "ms"),
        (format!("99 % of them within, {name}"), figures.worst, "ms"),
    ];
    for (what, value, unit) in rows {
        report.add(what, value, unit, Target::None);
    }
    add_failures(report, name, &figures.failures);
}

fn add_failures(report: &mut Report, whose: impl Display, failures: &[anyhow::Error]) {
    for failure in failures {
        print_status(format_args!("A review has failed: {failure:#}"));
    }
    let count = u32::try_from(failures.len()).unwrap_or(u32::MAX);
    report.add(
        format!("reviews that failed, {whose}"),
        f64::from(count),
        "reviews",
        Target::AtMost(0.0),
    );
}

/// Measures the growth of memory, which must be close to zero.
async fn measure_memory(
    report: &mut Report,
    bench: &Bench,
    server: Usage,
    reviews: u32,
) -> Result<()> {
    let before = server.resident_megabytes()?;
    let outcome = bench.client.review(Until::Count(reviews)).await?;
    let after = server.resident_megabytes()?;
    let whose = format!("ours, of {reviews}");
    add_failures(report, whose, &outcome.failures);
    report.add(
        format!("memory after {reviews} reviews, ours"),
        after,
        "MB",
        Target::None,
    );
    report.add(
        format!("its growth by {reviews} reviews, ours"),
        after - before,
        "MB",
        Target::AtMost(1.0),
    );
    Ok(())
}

struct Bench {
    kubeconfig: PathBuf,
    folder: TempDir,
    client: Client,
}

impl Bench {
    async fn new(kubeconfig: &Path) -> Result<Self> {
        let folder = TempDir::new()?;
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        std::fs::write(folder.path().join("certificate"), made.cert.pem())?;
        std::fs::write(folder.path().join("key"), made.signing_key.serialize_pem())?;
        Ok(Self {
            kubeconfig: kubeconfig.to_owned(),
            folder,
            client: Client::new(made.cert.der().clone()).await?,
        })
    }

    fn start(&self, implementation: Implementation) -> Result<Child> {
        let mut command = match implementation {
            Implementation::Original => Command::new(original()?),
            Implementation::Python => python::command()?,
            _ => Command::new(sibling("bench-reviews")?),
        };
        command.args(["run", "--standalone", "--all-namespaces", "--quiet"]);
        if implementation != Implementation::Ours {
            command.arg(servers::root().join("benches/implementations/original_reviews.py"));
        }
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("BENCH_PORT", self.client.address.port().to_string())
            .env("BENCH_CERTIFICATE", self.folder.path().join("certificate"))
            .env("BENCH_KEY", self.folder.path().join("key"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(self.log())?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", implementation.name()))
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Waits until the operator responds to a review.
    async fn ready(&self, running: &mut Child) -> Result<()> {
        let began = Instant::now();
        loop {
            let Err(error) = self.client.try_once().await else {
                return Ok(());
            };
            if let Some(status) = running.try_wait()? {
                return Err(error.context(format!("the operator has exited: {status}")));
            }
            if began.elapsed() > LIMIT {
                return Err(error.context("the operator does not respond after a minute"));
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn warm_up(&self) -> Result<()> {
        let outcome = self.client.review(Until::Time(WARM_UP)).await?;
        let failure = outcome.failures.into_iter().next();
        failure.map_or(Ok(()), Err)
    }

    async fn figures(&self, server: Usage) -> Result<Figures> {
        let client = Usage::of(std::process::id());
        let before = (server.cpu()?, client.cpu()?);
        let outcome = self.client.review(Until::Time(WINDOW)).await?;
        let server = server.cpu()?.saturating_sub(before.0).as_secs_f64();
        let client = client.cpu()?.saturating_sub(before.1).as_secs_f64();
        let count = f64::from(u32::try_from(outcome.times.len())?);
        Ok(Figures {
            per_second: count / WINDOW.as_secs_f64(),
            per_cpu_second: count / server,
            client_share: client / (client + server) * 100.0,
            median: percentile(outcome.times.clone(), 50),
            worst: percentile(outcome.times, 99),
            failures: outcome.failures,
        })
    }
}
