//! Parsing of the arguments and variables of a process into a task.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _};

use super::args::{Args, Command};
use super::environment::Environment;
use super::freezing::Order;
use super::manifests::PeeringArgs;
use super::options::RunOptions;
use super::shipping::ShippingCommand;

/// A command with checked options.
#[derive(Debug)]
pub(super) enum Task {
    Run(Box<RunOptions>),
    Freezing(Box<Order>),
    Printing(PeeringArgs),
    Shipping(Box<ShippingCommand>),
}

/// Parses the arguments of a process. Errors include `--help` and `--version`, which also end the
/// program before it starts.
pub(super) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    read: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Task, clap::Error> {
    let mut command = Args::command();
    let matches = command.try_get_matches_from_mut(arguments)?;
    task_in(
        &mut command,
        Args::from_arg_matches(&matches)?.command,
        read,
    )
}

/// Checks the options of a command that was parsed by another command line.
pub(super) fn task(
    parsed: Command,
    read: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Task, clap::Error> {
    let mut command = Args::command();
    // This sets the usage of the subcommands.
    command.build();
    task_in(&mut command, parsed, read)
}

fn task_in(
    command: &mut clap::Command,
    parsed: Command,
    read: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Task, clap::Error> {
    let (name, task) = match parsed {
        Command::Run(args) => {
            let options = RunOptions::new(&args, &Environment::new(read));
            ("run", options.map(Box::new).map(Task::Run))
        }
        Command::Freeze(args) => ("freeze", args.order(read).map(Box::new).map(Task::Freezing)),
        Command::Resume(args) => ("resume", args.order(read).map(Box::new).map(Task::Freezing)),
        Command::Peering(args) => return Ok(Task::Printing(args)),
        Command::Crd(_) => ("crd", Ok(Task::Shipping(Box::new(ShippingCommand::Crd)))),
        Command::Rbac(args) => ("rbac", args.command().map(Box::new).map(Task::Shipping)),
        Command::Manifests(args) => (
            "manifests",
            args.command().map(Box::new).map(Task::Shipping),
        ),
    };
    task.map_err(|usage| {
        let command = match command.find_subcommand_mut(name) {
            Some(subcommand) => subcommand,
            None => command,
        };
        command.error(ErrorKind::ValueValidation, usage)
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn error(arguments: &[&str]) -> clap::Error {
        let arguments = arguments.iter().map(OsString::from);
        parse(arguments, &|_| None).expect_err("an error")
    }

    #[test]
    fn usage_errors_contain_the_reason() {
        let expected = "error: -t/--lifetime is required: a number of seconds\n\nUsage: op freeze";
        for (arguments, expected) in [
            (&["op", "freeze", "-P", "x"][..], expected),
            (
                &["op", "run", "-A", "-n", "x"],
                "error: Either --namespace or --all-namespaces can be used, not both.\n\nUsage: op run \
                 [OPTIONS]",
            ),
            (
                &["op", "run", "-p", "high"],
                "error: invalid value 'high' for '--priority <INTEGER>'",
            ),
            (
                &["op", "run", "--nonsense"],
                "error: unexpected argument '--nonsense' found\n",
            ),
            (
                &["op", "nonsense"],
                "error: unrecognized subcommand 'nonsense'\n",
            ),
        ] {
            let error = error(arguments);
            assert_eq!(error.exit_code(), 2, "{arguments:?}");
            let text = error.to_string();
            assert!(text.starts_with(expected), "{arguments:?}: {text}");
        }
    }

    #[test]
    fn commands_parsed_by_other_programs_are_checked() {
        let Ok(args) = Args::try_parse_from(["op", "run", "-A", "-n", "x"]) else {
            panic!("the options are not parsed");
        };
        let error = task(args.command, &|_| None).expect_err("an error");
        assert_eq!(error.exit_code(), 2);
        let expected =
            "error: Either --namespace or --all-namespaces can be used, not both.\n\nUsage: ";
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    #[test]
    fn help_and_version_exit_with_success() {
        for arguments in [
            &["op", "--help"][..],
            &["op", "run", "-h"],
            &["op", "--version"],
        ] {
            assert_eq!(error(arguments).exit_code(), 0, "{arguments:?}");
        }
        let version = error(&["op", "--version"]).to_string();
        assert_eq!(version, format!("kopf {}\n", env!("CARGO_PKG_VERSION")));
        assert_eq!(error(&["op"]).exit_code(), 2);
    }

    /// Changes of the help texts are visible to users, so the whole texts are compared.
    #[test]
    fn help_texts_are_unchanged() {
        assert_eq!(
            error(&["op", "--help"]).to_string(),
            include_str!("help/help.txt")
        );
        assert_eq!(
            error(&["op", "run", "--help"]).to_string(),
            include_str!("help/run.txt")
        );
    }
}
