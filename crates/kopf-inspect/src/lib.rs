//! The state of handled objects, read from their annotations and statuses: `kopf get`, `explain`,
//! `retrigger`, `release` and `ui`.
//!
//! The commands read and patch objects, and send no requests to operators. They work for operators
//! in Rust, in Python and of the original, whether or not these are running. The formats are those
//! of `kopf_core`. The Rust command line calls [`run`], the Python command line [`run_line`].

#![warn(clippy::too_many_lines)]

mod advice;
mod annotations;
mod args;
mod changes;
mod cluster;
mod commands;
mod events;
mod explanation;
mod failure;
mod handled;
mod kinds;
mod leases;
mod lines;
mod object_ref;
mod paint;
mod pausing;
mod peers;
mod recognition;
mod records;
mod rendering;
mod screen;
mod state;
mod storages;
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
pub use self::object_ref::ObjectRef;
#[doc(hidden)]
pub use self::paint::Style;
pub use self::records::{HandlerProgress, ObjectProgress};
#[doc(hidden)]
pub use self::screen::Screen;
pub use self::state::{Finalizer, Source, State};
pub use self::storages::Storages;
pub use self::ui::{Page, PageHandle, PageOperator};
pub use self::writing::{Released, Retriggered, release, retrigger};

/// Exit code after Ctrl-C, the same as of shells.
const INTERRUPTED: u8 = 130;

/// Runs a command in a new runtime. Returns the exit code.
pub fn run(command: &Command) -> u8 {
    let screen = screen::Screen::detect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(commands::run(command, &screen)),
        Err(error) => Err(Failure::new("cannot start the runtime", &error)),
    };
    match result.and_then(|code| screen.check().map(|()| code)) {
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
            // stderr may be closed.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(1)
        }
    }
}
