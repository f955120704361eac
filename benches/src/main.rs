//! Benchmarks of the sandbox, with kube-apiserver and etcd for comparison, and of operators, with
//! other implementations of the same work. All servers are measured in the same run by the same
//! client code.
//!
//! Prints a table with targets. Missed targets do not fail the run, as the figures depend on the
//! load of the machine.

mod explore;
mod fanout;
mod instructions;
mod latency;
mod lists;
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

use crate::operators::Implementation;
use crate::report::{Report, print_status};
use crate::servers::{ControlPlane, Process};

/// Benchmark the sandbox against kube-apiserver and etcd, and an operator against others
#[derive(Debug, Parser)]
struct Args {
    /// Parts to measure; by default all but `explore`, `million` and `instructions`
    parts: Vec<Part>,
    /// Run on the sandbox only, without ratios; requires neither Go nor Python
    #[arg(long)]
    without_control_plane: bool,
    /// Operators to compare, in addition to the raw client; all by default
    #[arg(long, value_delimiter = ',')]
    implementations: Vec<Implementation>,
    /// Number of objects to handle; targets apply to the default
    #[arg(long, default_value_t = 5000)]
    objects: u32,
    /// Number of quiet objects; the target applies to the default
    #[arg(long, default_value_t = 100_000)]
    quiet_objects: u32,
    /// Number of objects that several replicas divide; published figures use the default
    #[arg(long, default_value_t = 100_000)]
    shared_objects: u32,
    /// Number of reviews for the growth of memory; the target applies to the default
    #[arg(long, default_value_t = 1_000_000)]
    reviews: u32,
    /// Numbers of objects of `million`; published figures use the default
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 100_000, 1_000_000])]
    sizes: Vec<u32>,
    /// Record the instructions as the new limits instead of comparing them
    #[arg(long)]
    record: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Time from the start of the process to /readyz
    Start,
    /// Creates and patches per second
    Writes,
    /// Events per second to many watchers
    Fanout,
    /// Latency of creates with and without many watchers
    Latency,
    /// Memory with many objects
    Memory,
    /// CPU, memory and waiting requests during lists of many objects
    Lists,
    /// CPU, memory and throughput of an operator and of others
    Operator,
    /// Memory of an operator with many quiet objects
    Quiet,
    /// CPU and memory of an operator with many timers
    Timers,
    /// Admission reviews per second, and their latency
    Reviews,
    /// CPU of an operator with and without metrics
    Metrics,
    /// CPU, memory and time of an operator over HTTP/2, and with another allocator
    Choices,
    /// CPU, memory, received bytes and throughput of several replicas
    Replicas,
    /// Plans per 10 minutes, schedules per minute in process, and memory of the explorer
    Explore,
    /// An operator with up to a million objects: its start, and 200 updates per second
    Million,
    /// Instructions and allocations of an operator; fails if they exceed the recorded ones (needs Valgrind)
    Instructions,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_status(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<()> {
    let is_selected = |part| args.parts.is_empty() || args.parts.contains(&part);
    let mut report = Report::default();
    if is_selected(Part::Start) {
        start::measure(&mut report).await?;
    }
    if is_selected(Part::Writes) || is_selected(Part::Fanout) || is_selected(Part::Latency) {
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
        if is_selected(Part::Writes) {
            writes::measure(&mut report, &over_tls, real.as_ref()).await?;
        }
        if is_selected(Part::Fanout) {
            fanout::measure(&mut report, &over_tls, real.as_ref()).await?;
        }
        if is_selected(Part::Latency) {
            latency::measure(&mut report, &over_tls, real.as_ref()).await?;
        }
        process.stop().await?;
        if let Some(control_plane) = control_plane {
            control_plane.stop().await?;
        }
    }
    if is_selected(Part::Memory) {
        memory::measure(&mut report).await?;
    }
    if is_selected(Part::Lists) {
        lists::measure(&mut report).await?;
    }
    let implementations: &[_] = match args.implementations.as_slice() {
        [] if args.without_control_plane => &[Implementation::Ours],
        [] => &Implementation::ALL,
        some => some,
    };
    if is_selected(Part::Operator) && !args.without_control_plane {
        operators::measure(&mut report, implementations, args.objects).await?;
    }
    if is_selected(Part::Quiet) {
        operators::quiet::measure(&mut report, args.quiet_objects).await?;
    }
    if is_selected(Part::Metrics) {
        operators::variants::metrics(&mut report, args.objects).await?;
    }
    if is_selected(Part::Choices) {
        operators::variants::choices(&mut report, args.objects).await?;
    }
    if is_selected(Part::Replicas) {
        operators::replicas::measure(&mut report, args.shared_objects, args.objects).await?;
    }
    if is_selected(Part::Timers) {
        operators::timers::measure(&mut report).await?;
    }
    if is_selected(Part::Reviews) {
        operators::reviews::measure(&mut report, implementations, args.reviews).await?;
    }
    // Takes a quarter of an hour.
    if args.parts.contains(&Part::Explore) {
        explore::measure(&mut report).await?;
    }
    // Takes half an hour and 10 GB.
    if args.parts.contains(&Part::Million) {
        operators::million::measure(&mut report, &args.sizes).await?;
    }
    // Takes minutes, needs Valgrind, and fails by itself.
    let counted = if args.parts.contains(&Part::Instructions) {
        instructions::measure(&mut report, args.record).await
    } else {
        Ok(())
    };
    report.print()?;
    counted
}
