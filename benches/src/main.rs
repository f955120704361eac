//! Measures the sandbox, and where it makes sense, kube-apiserver with etcd beside it in the same run,
//! with the same client code; and an operator beside others that do the same work. It prints a table and judges nothing but the words in it: figures of a
//! busy machine are no reason to fail a build.

mod fanout;
mod latency;
mod load;
mod memory;
mod operators;
mod report;
mod servers;
mod start;
mod usage;
mod watchers;
mod writes;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use crate::operators::Contestant;
use crate::report::{Report, tell};
use crate::servers::{ControlPlane, Process};

/// Measure the sandbox next to kube-apiserver and etcd, and an operator next to others
#[derive(Debug, Parser)]
struct Args {
    /// What to measure; everything by default
    parts: Vec<Part>,
    /// Only what runs on the sandbox: no Go and no Python are needed, and no ratios are given
    #[arg(long)]
    without_control_plane: bool,
    /// Who handles objects, besides the raw client; everybody by default
    #[arg(long, value_delimiter = ',')]
    contestants: Vec<Contestant>,
    /// Number of objects to handle; the targets are for the default
    #[arg(long, default_value_t = 5000)]
    objects: u32,
    /// Number of quiet objects; the target is for the default
    #[arg(long, default_value_t = 100_000)]
    quiet_objects: u32,
    /// Number of objects that several replicas divide; the figures are for the default
    #[arg(long, default_value_t = 100_000)]
    shared_objects: u32,
    /// Number of reviews for the growth of memory; the target is for the default
    #[arg(long, default_value_t = 1_000_000)]
    reviews: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// From the start of the process to /readyz
    Start,
    /// Creates and patches per second
    Writes,
    /// Events per second to many watchers
    Fanout,
    /// How long a create takes with and without many watchers
    Latency,
    /// Memory with many objects
    Memory,
    /// An operator next to others: processor, memory, throughput
    Operator,
    /// An operator's memory with many objects at rest
    Quiet,
    /// An operator's processor and memory with many timers
    Timers,
    /// Reviews for admission per second, and how long they take
    Reviews,
    /// An operator's processor with and without metrics
    Metrics,
    /// Several replicas: processor, memory and received bytes of each, and their throughput
    Replicas,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<()> {
    let wants = |part| args.parts.is_empty() || args.parts.contains(&part);
    let mut report = Report::default();
    if wants(Part::Start) {
        start::measure(&mut report).await?;
    }
    if wants(Part::Writes) || wants(Part::Fanout) || wants(Part::Latency) {
        let control_plane = if args.without_control_plane {
            None
        } else {
            Some(ControlPlane::start().await?)
        };
        let real = match &control_plane {
            Some(control_plane) => Some(control_plane.client().await?),
            None => None,
        };
        let process = Process::start().await?;
        let over_tls = process.client().await?;
        if wants(Part::Writes) {
            writes::measure(&mut report, &over_tls, real.as_ref()).await?;
        }
        if wants(Part::Fanout) {
            fanout::measure(&mut report, &over_tls, real.as_ref()).await?;
        }
        if wants(Part::Latency) {
            latency::measure(&mut report, &over_tls, real.as_ref()).await?;
        }
        process.stop().await?;
        if let Some(control_plane) = control_plane {
            control_plane.stop().await?;
        }
    }
    if wants(Part::Memory) {
        memory::measure(&mut report).await?;
    }
    let contestants: &[_] = match args.contestants.as_slice() {
        [] if args.without_control_plane => &[Contestant::Ours],
        [] => &Contestant::ALL,
        some => some,
    };
    if wants(Part::Operator) && !args.without_control_plane {
        operators::measure(&mut report, contestants, args.objects).await?;
    }
    if wants(Part::Quiet) {
        operators::quiet::measure(&mut report, args.quiet_objects).await?;
    }
    if wants(Part::Metrics) {
        operators::metrics::measure(&mut report, args.objects).await?;
    }
    if wants(Part::Replicas) {
        operators::replicas::measure(&mut report, args.shared_objects, args.objects).await?;
    }
    if wants(Part::Timers) {
        operators::timers::measure(&mut report).await?;
    }
    if wants(Part::Reviews) {
        operators::reviews::measure(&mut report, contestants, args.reviews).await?;
    }
    report.print()
}
