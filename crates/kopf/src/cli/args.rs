//! The arguments of the command line: names, order and help texts of all options.
//!
//! [`super::options`] merges them with the environment. Nothing here reads the environment, so that
//! the precedence is defined in one place.

use std::ffi::OsString;
use std::path::PathBuf;

use super::freezing::{FreezeArgs, ResumeArgs};
use super::manifests::PeeringArgs;
use super::shipping::{CrdArgs, ManifestsArgs, RbacArgs};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use kopf_core::settings::Shards;

/// A Kubernetes operator, made with Kopf
///
/// The handlers are compiled into this program. Every option of a command can also be set by the
/// environment variable in its description.
#[derive(Debug, Parser)]
#[command(
    name = "kopf",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = EXIT_CODES
)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 after SIGINT, SIGTERM or SIGHUP, 1 on an error or after a second signal, 2 on invalid arguments.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Run(Box<RunArgs>),
    Freeze(Box<FreezeArgs>),
    Resume(Box<ResumeArgs>),
    Peering(PeeringArgs),
    Crd(CrdArgs),
    Rbac(Box<RbacArgs>),
    Manifests(Box<ManifestsArgs>),
}

const PEERING: &str = "Peering";
const REPLICAS: &str = "Replicas";
const LOGGING: &str = "Logging";
const SANDBOX: &str = "Sandbox";

/// Run the operator until SIGINT, SIGTERM or SIGHUP
///
/// It connects to the cluster of the kubeconfig ($KUBECONFIG, ~/.kube/config) or of its service
/// account, or to a sandbox in this process.
#[derive(Debug, Default, ClapArgs)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // flags of a command line
pub(super) struct RunArgs {
    /// Serve all namespaces (default) [env: KOPF_RUN_CLUSTERWIDE]
    #[arg(short = 'A', long)]
    pub(super) all_namespaces: bool,

    /// Serve namespaces that match a name or a pattern, such as 'team-*,!team-x'; can be repeated
    /// [env: KOPF_RUN_NAMESPACES]
    #[arg(short = 'n', long = "namespace", value_name = "PATTERN")]
    pub(super) namespaces: Vec<String>,

    /// Ignore other operators, even if a peering object exists [env: KOPF_RUN_STANDALONE]
    #[arg(long, help_heading = PEERING)]
    pub(super) standalone: bool,

    /// Coordinate with other operators through this peering object, and pause while it is missing;
    /// default: the object named default, if it exists [env: KOPF_RUN_PEERING]
    #[arg(short = 'P', long, value_name = "NAME", help_heading = PEERING)]
    pub(super) peering: Option<String>,

    /// Priority in the peering: operators of lower priority pause, and all of those with the same one;
    /// default: 0 [env: KOPF_RUN_PRIORITY]
    #[arg(short, long, value_name = "INTEGER", allow_negative_numbers = true,
          help_heading = PEERING)]
    pub(super) priority: Option<i64>,

    /// Use the priority of developers, 666, to pause other operators [env: KOPF_RUN_DEV]
    #[arg(long, help_heading = PEERING)]
    pub(super) dev: bool,

    /// Handle objects only while this replica holds a Lease [env: KOPF_RUN_LEADER_ELECT]
    #[arg(long, help_heading = REPLICAS)]
    pub(super) leader_elect: bool,

    /// Name of the Lease, shared by the replicas of this operator only; implies --leader-elect
    /// [env: KOPF_RUN_LEADER_ELECT_NAME]
    #[arg(long, value_name = "NAME", help_heading = REPLICAS)]
    pub(super) leader_elect_name: Option<String>,

    /// Namespace of the Lease; default: that of the credentials [env: KOPF_RUN_LEADER_ELECT_NAMESPACE]
    #[arg(long, value_name = "NAMESPACE", help_heading = REPLICAS)]
    pub(super) leader_elect_namespace: Option<String>,

    /// Divide the objects among all replicas by this number of shards, or "auto"; requires
    /// --leader-elect-name [env: KOPF_RUN_SHARDS]
    #[arg(long, value_name = "NUMBER", help_heading = REPLICAS)]
    pub(super) shards: Option<Shards>,

    /// Enable debug messages [env: KOPF_RUN_VERBOSE]
    #[arg(short, long, help_heading = LOGGING)]
    pub(super) verbose: bool,

    /// Enable debug messages of libraries as well [env: KOPF_RUN_DEBUG]
    #[arg(short, long, help_heading = LOGGING)]
    pub(super) debug: bool,

    /// Log only warnings and errors [env: KOPF_RUN_QUIET]
    #[arg(short, long, help_heading = LOGGING)]
    pub(super) quiet: bool,

    /// Format of log records; default: full [env: KOPF_RUN_LOG_FORMAT]
    #[arg(long, value_name = "FORMAT", ignore_case = true, help_heading = LOGGING)]
    pub(super) log_format: Option<LogFormat>,

    /// Key of the object reference in JSON records; default: object [env: KOPF_RUN_LOG_REFKEY]
    #[arg(long, value_name = "KEY", help_heading = LOGGING)]
    pub(super) log_refkey: Option<String>,

    /// Start messages with [namespace/name] of their object (default, except for json) [env:
    /// KOPF_RUN_LOG_PREFIX]
    #[arg(long, overrides_with = "no_log_prefix", help_heading = LOGGING)]
    pub(super) log_prefix: bool,

    /// Omit the object from messages
    #[arg(long, overrides_with = "log_prefix", help_heading = LOGGING)]
    pub(super) no_log_prefix: bool,

    /// Run on an embedded Kubernetes API server: in memory, without nodes [env: KOPF_RUN_SANDBOX]
    #[arg(long, help_heading = SANDBOX)]
    pub(super) sandbox: bool,

    /// Manifests to load into the sandbox: a file, a folder, or - for stdin; can be repeated [env:
    /// KOPF_RUN_FILENAMES]
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST", help_heading = SANDBOX)]
    pub(super) filenames: Vec<PathBuf>,

    /// Port of the sandbox for kubectl; default: any free port [env: KOPF_RUN_SANDBOX_PORT]
    #[arg(long, value_name = "PORT", help_heading = SANDBOX)]
    pub(super) sandbox_port: Option<u16>,

    /// Serve liveness probes at this URL, as in http://0.0.0.0:8080/healthz [env:
    /// KOPF_RUN_LIVENESS_ENDPOINT]
    #[arg(short = 'L', long, value_name = "URL")]
    pub(super) liveness: Option<String>,

    /// Create or update the CRDs of the resources at the start; fail if those in the cluster permit
    /// more [env: KOPF_RUN_INSTALL_CRDS]
    #[arg(long)]
    pub(super) install_crds: bool,

    /// Serve metrics at this URL, as in http://0.0.0.0:9090/metrics; default: /metrics at the
    /// address of --liveness [env: KOPF_RUN_METRICS]
    #[arg(long, value_name = "URL")]
    pub(super) metrics: Option<String>,

    /// A module with handlers: rejected, because handlers are compiled in [env: KOPF_RUN_MODULES]
    #[arg(short, long = "module", value_name = "MODULE", hide = true)]
    pub(super) modules: Vec<String>,

    /// Files with handlers: rejected, because handlers are compiled in
    #[arg(value_name = "PATHS", hide = true)]
    pub(super) paths: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  run -A                                      serve the whole cluster
  run -n default -n 'team-*,!team-x'          serve some namespaces
  run --sandbox -f crd.yaml -f obj.yaml       try it without a cluster
  run -A --dev                                pause the operators in the cluster
  run -A --verbose --log-format json          log debug messages as JSON";

/// A format of log records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// The message only
    Plain,
    /// Time, logger, level, message
    #[default]
    Full,
    /// A JSON object per line
    Json,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Args::command().debug_assert();
    }

    fn run(arguments: &[&str]) -> RunArgs {
        let arguments = ["op", "run"].iter().chain(arguments);
        match Args::try_parse_from(arguments).unwrap().command {
            Command::Run(args) => *args,
            other => panic!("another command is parsed: {other:?}"),
        }
    }

    #[test]
    fn options_of_the_original_are_accepted() {
        let args = run(&[
            "-A",
            "-n",
            "a",
            "--namespace",
            "b,!c",
            "--standalone",
            "--dev",
            "-L",
            "http://:8080/",
            "-P",
            "peers",
            "-p",
            "-5",
            "-vdq",
            "--log-format",
            "JSON",
            "--log-refkey",
            "k8s",
            "--log-prefix",
            "-m",
            "mod",
            "file.py",
        ]);
        assert!(args.all_namespaces && args.standalone && args.dev);
        assert!(args.verbose && args.debug && args.quiet);
        assert_eq!(args.namespaces, ["a", "b,!c"]);
        assert_eq!(args.liveness.as_deref(), Some("http://:8080/"));
        assert_eq!(args.peering.as_deref(), Some("peers"));
        assert_eq!(args.priority, Some(-5));
        assert_eq!(args.log_format, Some(LogFormat::Json));
        assert_eq!(args.log_refkey.as_deref(), Some("k8s"));
        assert!(args.log_prefix);
        assert_eq!(args.modules, ["mod"]);
        assert_eq!(args.paths, ["file.py"]);
    }

    #[test]
    fn the_last_prefix_option_has_precedence() {
        let args = run(&["--log-prefix", "--no-log-prefix"]);
        assert!(args.no_log_prefix && !args.log_prefix);
        let args = run(&["--no-log-prefix", "--log-prefix"]);
        assert!(args.log_prefix && !args.no_log_prefix);
    }
}
