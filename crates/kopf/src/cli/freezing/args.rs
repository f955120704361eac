//! The arguments of `freeze` and `resume`.

use clap::Args as ClapArgs;

use super::super::args::LogFormat;

const LOGGING: &str = "Logging";

/// Pause other operators for a while
///
/// Writes a record into a peering object, like an operator of a high priority. Operators of lower
/// priority in this peering pause until the record expires, or until the command `resume` removes
/// it. Every option can also be set by the variable KOPF_FREEZE_<OPTION>.
#[derive(Debug, Default, Clone, ClapArgs)]
#[command(after_help = FREEZING)]
pub struct FreezeArgs {
    #[command(flatten)]
    pub(super) place: FreezePlaceArgs,

    /// Use the priority of developers, 666, to pause other operators [env: KOPF_FREEZE_DEV]
    #[arg(long)]
    pub(super) dev: bool,

    /// Priority: operators of a lower priority pause; default: 100 [env: KOPF_FREEZE_PRIORITY]
    #[arg(short, long, value_name = "INTEGER", allow_negative_numbers = true)]
    pub(super) priority: Option<i64>,

    /// Duration in seconds; required [env: KOPF_FREEZE_LIFETIME]
    #[arg(short = 't', long, value_name = "SECONDS")]
    pub(super) lifetime: Option<u64>,

    /// Note on the reason; not stored [env: KOPF_FREEZE_MESSAGE]
    #[arg(short, long, value_name = "TEXT")]
    pub(super) message: Option<String>,

    #[command(flatten)]
    pub(super) logging: LoggingArgs,
}

const FREEZING: &str = "\
Examples:
  freeze -A -P default -t 600             the operators of the whole cluster, for ten minutes
  freeze -n default -P default -t 60      the operators of one namespace, for a minute";

/// Resume paused operators
///
/// Removes the record that `freeze` wrote into a peering object under the same identity. Every
/// option can also be set by the variable KOPF_RESUME_<OPTION>.
#[derive(Debug, Default, Clone, ClapArgs)]
#[command(after_help = "Example:\n  resume -A -P default")]
pub struct ResumeArgs {
    #[command(flatten)]
    pub(super) place: ResumePlaceArgs,

    #[command(flatten)]
    pub(super) logging: LoggingArgs,
}

/// Peering objects, and the identity of the record.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) all_namespaces: bool,
    pub(super) namespaces: &'a [String],
    pub(super) id: Option<&'a str>,
    pub(super) peering: Option<&'a str>,
}

/// Defines the options of a place, which differ only in the names of their variables.
macro_rules! place_args {
    ($name:ident, $command:literal) => {
        #[derive(Debug, Default, Clone, ClapArgs)]
        pub(super) struct $name {
            #[arg(short = 'A', long, help = concat!(
                "Operators of the whole cluster [env: KOPF_", $command, "_CLUSTERWIDE]"
            ))]
            all_namespaces: bool,

            #[arg(short = 'n', long = "namespace", value_name = "PATTERN", help = concat!(
                "Operators of these namespaces; can be repeated [env: KOPF_", $command,
                "_NAMESPACES]"
            ))]
            namespaces: Vec<String>,

            #[arg(short, long = "id", value_name = "IDENTITY", help = concat!(
                "Identity of the record; default: $POD_ID or user@host [env: KOPF_", $command,
                "_ID]"
            ))]
            id: Option<String>,

            #[arg(short = 'P', long, value_name = "NAME", help = concat!(
                "Name of the peering object; required [env: KOPF_", $command, "_PEERING]"
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

/// Log options, as of `run`.
#[derive(Debug, Default, Clone, ClapArgs)]
#[allow(clippy::struct_excessive_bools)] // flags of a command line
pub(in crate::cli) struct LoggingArgs {
    /// Enable debug messages
    #[arg(short, long, help_heading = LOGGING)]
    pub(in crate::cli) verbose: bool,

    /// Enable debug messages of libraries as well
    #[arg(short, long, help_heading = LOGGING)]
    pub(in crate::cli) debug: bool,

    /// Log only warnings and errors
    #[arg(short, long, help_heading = LOGGING)]
    pub(in crate::cli) quiet: bool,

    /// Format of log records; default: full
    #[arg(long, value_name = "FORMAT", ignore_case = true, help_heading = LOGGING)]
    pub(in crate::cli) log_format: Option<LogFormat>,

    /// Key of the object reference in JSON records; default: object
    #[arg(long, value_name = "KEY", help_heading = LOGGING)]
    pub(in crate::cli) log_refkey: Option<String>,

    /// Start messages with [namespace/name] of their object (default, except for json)
    #[arg(long, overrides_with = "no_log_prefix", help_heading = LOGGING)]
    pub(in crate::cli) log_prefix: bool,

    /// Omit the object from messages
    #[arg(long, overrides_with = "log_prefix", help_heading = LOGGING)]
    pub(in crate::cli) no_log_prefix: bool,
}
