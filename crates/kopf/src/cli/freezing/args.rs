//! The command lines of `freeze` and `resume`, as they are written.

use clap::Args as ClapArgs;

use super::super::args::LogFormat;

const LOGGING: &str = "Logging";

/// Pause other operators for a while
///
/// Leaves a record in a peering object, as an operator of a high priority would. All operators that
/// take part in the peering with a lower priority pause until the record expires, or until it is removed by
/// the command `resume`. Every option can also be given by a variable, KOPF_FREEZE_<OPTION>.
#[derive(Debug, Default, Clone, ClapArgs)]
#[command(after_help = FREEZING)]
pub struct FreezeArgs {
    #[command(flatten)]
    pub(super) place: FreezePlaceArgs,

    /// The priority of developers, 666: goes ahead of other operators [env: KOPF_FREEZE_DEV]
    #[arg(long)]
    pub(super) dev: bool,

    /// Operators of a lower priority pause; 100 if nothing is said [env: KOPF_FREEZE_PRIORITY]
    #[arg(short, long, value_name = "INTEGER", allow_negative_numbers = true)]
    pub(super) priority: Option<i64>,

    /// For how long, in seconds; required [env: KOPF_FREEZE_LIFETIME]
    #[arg(short = 't', long, value_name = "SECONDS")]
    pub(super) lifetime: Option<u64>,

    /// A note on the reason; it is kept nowhere [env: KOPF_FREEZE_MESSAGE]
    #[arg(short, long, value_name = "TEXT")]
    pub(super) message: Option<String>,

    #[command(flatten)]
    pub(super) logging: LoggingArgs,
}

const FREEZING: &str = "\
Examples:
  freeze -A -P default -t 600             the operators of the whole cluster, for ten minutes
  freeze -n default -P default -t 60      the operators of one namespace, for a minute";

/// Let paused operators go on
///
/// Removes the record that `freeze` has left in a peering object under the same identity. Every option can
/// also be given by a variable, KOPF_RESUME_<OPTION>.
#[derive(Debug, Default, Clone, ClapArgs)]
#[command(after_help = "Example:\n  resume -A -P default")]
pub struct ResumeArgs {
    #[command(flatten)]
    pub(super) place: ResumePlaceArgs,

    #[command(flatten)]
    pub(super) logging: LoggingArgs,
}

/// Which peering objects, and in whose name.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) all_namespaces: bool,
    pub(super) namespaces: &'a [String],
    pub(super) id: Option<&'a str>,
    pub(super) peering: Option<&'a str>,
}

/// The options of a place: the same for both commands, but for the names of their variables.
macro_rules! place_args {
    ($name:ident, $command:literal) => {
        #[derive(Debug, Default, Clone, ClapArgs)]
        pub(super) struct $name {
            #[arg(short = 'A', long, help = concat!(
                "The operators of the whole cluster [env: KOPF_", $command, "_CLUSTERWIDE]"
            ))]
            all_namespaces: bool,

            #[arg(short = 'n', long = "namespace", value_name = "PATTERN", help = concat!(
                "The operators of these namespaces; can be repeated [env: KOPF_", $command,
                "_NAMESPACES]"
            ))]
            namespaces: Vec<String>,

            #[arg(short, long = "id", value_name = "IDENTITY", help = concat!(
                "In whose name; user@host if nothing is said, or $POD_ID [env: KOPF_", $command,
                "_ID]"
            ))]
            id: Option<String>,

            #[arg(short = 'P', long, value_name = "NAME", help = concat!(
                "The name of the peering object; required [env: KOPF_", $command, "_PEERING]"
            ))]
            peering: Option<String>,
        }

        impl $name {
            pub(super) fn place(&self) -> Place<'_> {
                Place {
                    all_namespaces: self.all_namespaces,
                    namespaces: &self.namespaces,
                    id: self.id.as_deref(),
                    peering: self.peering.as_deref(),
                }
            }
        }
    };
}

place_args!(FreezePlaceArgs, "FREEZE");
place_args!(ResumePlaceArgs, "RESUME");

/// As for `run`.
#[derive(Debug, Default, Clone, ClapArgs)]
#[allow(clippy::struct_excessive_bools)] // flags of a command line
pub(in crate::cli) struct LoggingArgs {
    /// Log more: also messages for debugging
    #[arg(short, long, help_heading = LOGGING)]
    pub(in crate::cli) verbose: bool,

    /// Log even more: also what the libraries below do
    #[arg(short, long, help_heading = LOGGING)]
    pub(in crate::cli) debug: bool,

    /// Log less: only warnings and errors
    #[arg(short, long, help_heading = LOGGING)]
    pub(in crate::cli) quiet: bool,

    /// How a record is written; full if nothing is said
    #[arg(long, value_name = "FORMAT", ignore_case = true, help_heading = LOGGING)]
    pub(in crate::cli) log_format: Option<LogFormat>,

    /// The key of the object's identity in JSON; object if nothing is said
    #[arg(long, value_name = "KEY", help_heading = LOGGING)]
    pub(in crate::cli) log_refkey: Option<String>,

    /// Begin messages with [namespace/name] of their object; the default, except for json
    #[arg(long, overrides_with = "no_log_prefix", help_heading = LOGGING)]
    pub(in crate::cli) log_prefix: bool,

    /// Leave the object out of messages
    #[arg(long, overrides_with = "log_prefix", help_heading = LOGGING)]
    pub(in crate::cli) no_log_prefix: bool,
}
