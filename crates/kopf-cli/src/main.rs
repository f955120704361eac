//! The `kopf` command. Parses the command line and runs one subcommand.
//!
//! Exit codes: 0 on success, 1 on failure, 2 on invalid usage; with `kopf sandbox … -- COMMAND`,
//! that of the command; with `kopf explore`, 1 is a finding.

mod args;
mod child;
mod completing;
mod demo;
mod dump;
mod failure;
mod new;
mod sandbox;
mod shutdown;
mod table;

use std::fmt::Display;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use kopf_sandbox::manifests::Manifests;

use crate::args::{Args, Command, SandboxTask};
use crate::failure::{Failure, of_manifests};
use kopf_inspect::Screen;

fn main() -> ExitCode {
    // Exits the process with 2 on invalid usage, and with 0 after --help.
    let args = Args::parse();
    let read = |name: &str| std::env::var_os(name);
    let orders = match &args.command {
        Command::Freeze(args) => Some(("freeze", args.order(&read))),
        Command::Resume(args) => Some(("resume", args.order(&read))),
        Command::Peering(args) => return args.run(),
        Command::Inspect(command) => return ExitCode::from(kopf_inspect::run(command)),
        Command::Explore(options) => return ExitCode::from(kopf_explore::command::run(options)),
        Command::Sandbox(_)
        | Command::Demo(_)
        | Command::New(_)
        | Command::Completions(_)
        | Command::Manual(_) => None,
    };
    if let Some((name, order)) = orders {
        return match order {
            Ok(order) => order.run(),
            Err(usage) => refuse(name, usage),
        };
    }
    let terminal = Screen::detect();
    match run(&args.command, &terminal) {
        Ok(code) => code,
        Err(failure) => {
            terminal.failure(&failure);
            ExitCode::FAILURE
        }
    }
}

/// Reports invalid usage in the format of clap's own errors.
fn refuse(name: &str, usage: impl Display) -> ExitCode {
    let mut command = Args::command();
    let error = match command.find_subcommand_mut(name) {
        Some(subcommand) => subcommand.error(ErrorKind::ValueValidation, usage),
        None => command.error(ErrorKind::ValueValidation, usage),
    };
    // stderr may be closed.
    let _ = error.print();
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn run(command: &Command, terminal: &Screen) -> Result<ExitCode, Failure> {
    match command {
        Command::New(options) => return new::run(options),
        Command::Completions(options) => return completing::completions(options),
        Command::Manual(options) => return completing::manual(options),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("cannot start the runtime", &error))?;
    match command {
        Command::Sandbox(options) => {
            match &options.task {
                Some(SandboxTask::Export(options)) => {
                    return runtime.block_on(dump::export(options, terminal));
                }
                Some(SandboxTask::Import(options)) => {
                    return runtime.block_on(dump::import(options, terminal));
                }
                None => {}
            }
            // All input is read before the sandbox is started: invalid input has no side effects.
            let content = sandbox::Content {
                manifests: Manifests::read(&options.filename).map_err(of_manifests)?,
                dumps: Manifests::read(&options.dump).map_err(of_manifests)?,
            };
            runtime.block_on(sandbox::run(options, content, terminal))
        }
        Command::Demo(options) => {
            runtime.block_on(demo::run(options, terminal))?;
            Ok(ExitCode::SUCCESS)
        }
        // Handled above, or by `main`: they need no runtime, or have their own.
        Command::Completions(_)
        | Command::Manual(_)
        | Command::Freeze(_)
        | Command::Explore(_)
        | Command::Resume(_)
        | Command::Peering(_)
        | Command::New(_)
        | Command::Inspect(_) => Ok(ExitCode::SUCCESS),
    }
}
