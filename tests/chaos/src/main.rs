//! A soak test: `make chaos`.
//!
//! An operator with handlers of all kinds runs on a sandbox with injected faults, and is killed
//! repeatedly. In the end, all objects must be in their final state, no handler may have been
//! called again after its success was recorded, and daemons and timers must match the existing
//! objects. Handler calls are recorded in a ledger outside of the killed process. A second run,
//! with the operator in this process, checks for leaks.
//!
//! The same seed repeats the changes, faults and times of kills. The timing between them varies.

mod checks;
mod cluster;
mod faults;
mod leaks;
mod ledger;
mod operator;
mod probing;
mod random;
mod report;
mod rounds;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use report::print_line;

/// Run an operator under injected faults, kill it repeatedly, and check the results
#[derive(Debug, Parser)]
struct Options {
    /// Seed of changes, faults and kills; random by default
    #[arg(long)]
    seed: Option<u64>,
    /// Seconds of faults and kills
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Seconds of the run that checks for leaks
    #[arg(long, default_value_t = 30)]
    leaks: u64,
    /// Maximum number of objects
    #[arg(long, default_value_t = 30)]
    objects: usize,
    /// Log file of the operator
    #[arg(long, default_value = "target/chaos.log")]
    log: PathBuf,
}

fn main() -> ExitCode {
    if std::env::var_os(rounds::ROLE).is_some() {
        return operator::main();
    }
    let options = Options::parse();
    match tokio::runtime::Runtime::new().map(|runtime| runtime.block_on(run(&options))) {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false)) => ExitCode::FAILURE,
        Ok(Err(error)) => {
            print_line!("error: {error:#}");
            ExitCode::FAILURE
        }
        Err(error) => {
            print_line!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> anyhow::Result<bool> {
    let seed = options.seed.unwrap_or_else(|| {
        u64::from(std::process::id()) ^ jiff::Timestamp::now().as_second().unsigned_abs()
    });
    let (length, leaks) = (
        Duration::from_secs(options.seconds),
        Duration::from_secs(options.leaks),
    );
    print_line!(
        "seed {seed} (repeat with --seed {seed}); log of the operator: {}",
        options.log.display()
    );
    if let Some(folder) = options.log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // Remove the log of the previous run.
    std::fs::write(&options.log, "")?;
    let mut report = rounds::run(seed, length, options.objects, &options.log).await?;
    report
        .findings
        .extend(leaks::run(seed, leaks, options.objects).await?);
    report.show();
    Ok(report.findings.is_empty())
}
