//! A soak test that anyone can run: `make chaos`.
//!
//! An operator with handlers of every kind works on a sandbox, amid faults of every kind, and is killed
//! again and again in the middle of it. In the end, all objects must be in their final state, no handler
//! may have run again after its success was recorded, and nothing may be left of what is gone. What ran
//! is kept in a ledger outside of the killed process. Leaks are looked for in a second run, in which the
//! operator lives in this process.
//!
//! The same seed gives the same changes, faults and moments of death. When things happen between them is
//! up to the machine.

mod chance;
mod cluster;
mod judging;
mod leaks;
mod ledger;
mod operator;
mod probing;
mod report;
mod rounds;
mod trouble;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use report::tell;

/// An operator among faults and sudden deaths
#[derive(Debug, Parser)]
struct Options {
    /// What the changes, the faults and the deaths follow; by default, another one each time
    #[arg(long)]
    seed: Option<u64>,
    /// How long the operator is maltreated
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// How long it is watched for leaks
    #[arg(long, default_value_t = 30)]
    leaks: u64,
    /// How many objects there are at most
    #[arg(long, default_value_t = 30)]
    objects: usize,
    /// Where the log of the operator goes
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
            tell!("error: {error:#}");
            ExitCode::FAILURE
        }
        Err(error) => {
            tell!("error: {error}");
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
    tell!(
        "seed {seed}: repeat it with --seed {seed}; the operator's log: {}",
        options.log.display()
    );
    if let Some(folder) = options.log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // What was logged before was another run.
    std::fs::write(&options.log, "")?;
    let mut report = rounds::run(seed, length, options.objects, &options.log).await?;
    report
        .findings
        .extend(leaks::run(seed, leaks, options.objects).await?);
    report.show();
    Ok(report.findings.is_empty())
}
