//! The state of handled objects, read from their annotations and statuses: `kopf get`, `explain`,
//! `retrigger`, `release` and `ui`.
//!
//! Nothing is requested from operators, so the commands work for operators of both fronts and of
//! the original, also while none is running. The formats are those of `kopf_core`; the commands are
//! the same in the Rust and the Python command line, which call [`run`] and [`run_line`].

#![warn(clippy::too_many_lines)]

mod advice;
mod args;
mod changes;
mod cluster;
mod commands;
mod events;
mod failure;
mod handled;
mod kinds;
mod leases;
mod named;
mod own;
mod paint;
mod peers;
mod places;
mod records;
mod rendering;
mod screen;
mod state;
mod story;
mod table;
mod time;
mod ui;
mod writing;

use std::ffi::OsString;

use clap::Parser as _;

pub use self::args::Command;
pub use self::cluster::Cluster;
pub use self::failure::Failure;
pub use self::handled::Handled;
pub use self::named::Named;
pub use self::places::Places;
pub use self::records::{Finding, Findings};
pub use self::state::{Holder, Source, State};
pub use self::writing::{Released, Retriggered, release, retrigger};

/// Exit code after Ctrl-C, as of shells.
const INTERRUPTED: u8 = 130;

/// Runs a command in a runtime of its own. Returns the exit code.
pub fn run(command: &Command) -> u8 {
    let screen = screen::Screen::detect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(commands::run(command, &screen)),
        Err(error) => Err(Failure::new("cannot start the runtime", &error)),
    };
    match result {
        Ok(code) => code,
        Err(failure) => {
            screen.failure(&failure);
            1
        }
    }
}

/// Parses a command line that begins with the name of the command, and runs it. Returns the exit
/// code: 2 for invalid arguments.
pub fn run_line(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments = [OsString::from("kopf")].into_iter().chain(arguments);
    match args::Line::try_parse_from(arguments) {
        Ok(line) => run(&line.command),
        Err(error) => {
            // The reader of the output may be gone.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(1)
        }
    }
}
