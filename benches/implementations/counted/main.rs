//! Operators on a server in memory, in one thread and in virtual time, for counting their instructions and
//! allocations: `bench-counted SCENARIO COUNT` ends after COUNT units of the scenario. The difference of two
//! runs with different counts contains neither start nor exit.

mod scenarios;
mod server;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use self::scenarios::Scenario;

fn main() -> ExitCode {
    match run() {
        // Without the destructors of a running operator.
        Ok(()) => std::process::exit(0),
        Err(error) => {
            // stderr may be closed.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let scenario = args.next().context("missing argument 1: the scenario")?;
    let scenario: Scenario = scenario.parse()?;
    let count = args.next().context("missing argument 2: the count")?;
    let count = count.parse().context("invalid argument 2: not a number")?;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build()?;
    runtime.block_on(scenario.run(count))
}
