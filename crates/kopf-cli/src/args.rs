//! The command line: names, defaults and help texts of all options.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use kopf::cli::{FreezeArgs, PeeringArgs, ResumeArgs};
use kopf_sandbox::simulation::Simulation;

/// Kubernetes operators: a demo, a sandbox API server to write, try and test them, and commands to pause
/// those that run and to inspect the objects they handle.
#[derive(Debug, Parser)]
#[command(name = "kopf", version, propagate_version = true, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 when all went well, 1 on a failure, 2 on a wrong command line; that of the command
after `kopf sandbox … --`.
Set NO_COLOR to have no colours on a terminal; there are none in a pipe.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Sandbox(Box<SandboxOptions>),
    Demo(DemoOptions),
    Freeze(Box<FreezeArgs>),
    Resume(Box<ResumeArgs>),
    Peering(PeeringArgs),
    New(NewOptions),
    #[command(flatten)]
    Inspect(kopf_inspect::Command),
}

/// Create a project: an operator with its tests, a Dockerfile, manifests and a CI workflow
///
/// The project compiles, and its tests pass without a cluster. An existing folder is never changed unless it
/// is empty.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Examples:\n  kopf new my-operator\n  kopf new my-operator --python --path ops/my"
)]
pub(crate) struct NewOptions {
    /// The name of the project: lower-case letters, digits and dashes
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Write the operator in Python instead of Rust
    #[arg(long)]
    pub(crate) python: bool,

    /// The folder to create; NAME in the current one by default
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,

    /// The sources of Kopf to depend on, for its own tests
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) kopf_path: Option<PathBuf>,
}

/// Show what an operator does, step by step, and stay to be played with until Ctrl-C
///
/// Starts a sandbox with a custom resource and an operator with a few handlers; creates, changes and
/// deletes an object; and tells what comes of it: handlers, retries, differences, the resulting object.
/// It needs no cluster and no kubectl, and changes nothing on this machine.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  kopf demo\n  kopf demo --once")]
pub(crate) struct DemoOptions {
    /// End when everything is told
    #[arg(long)]
    pub(crate) once: bool,
}

/// Run a Kubernetes API server in this process until Ctrl-C, or for a command
///
/// It speaks the Kubernetes API over TLS: kubectl and other clients can use it as a cluster. It has
/// no nodes and runs no containers: objects are stored, validated, watched and deleted as in a real
/// cluster, but a Deployment creates no pods (unless with --simulate). All of it is in memory and gone when the process ends, unless
/// there is a folder for it (--data).
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct SandboxOptions {
    #[command(subcommand)]
    pub(crate) task: Option<SandboxTask>,

    /// The port to listen on; 0 takes any free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,

    /// The address to listen on; other than loopback, everybody in the network can connect
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST),
          value_parser = address)]
    pub(crate) address: IpAddr,

    /// Check every request against roles and bindings
    ///
    /// By default, everybody who is let in may do everything. The administrator of the kubeconfig may do
    /// so in either case.
    #[arg(long)]
    pub(crate) rbac: bool,

    /// Where to write the kubeconfig with the credentials; the file stays when the sandbox ends
    ///
    /// An existing file is replaced only if the sandbox has written it. By default, it is a file in
    /// the runtime folder of the user or in the folder for temporary files, and it is removed at
    /// the end.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Objects to create at the start: a file, a folder, or - for stdin; can be repeated
    ///
    /// Files are YAML (with any number of documents) or JSON; lists are taken apart. Of folders, all
    /// *.yaml, *.yml and *.json are read, also in folders below, in the order of their names. Custom
    /// resource definitions and namespaces are created first, webhook configurations last, the
    /// others in the order in which they are given, but owners before what they own. Namespaces
    /// that are missing are created.
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST")]
    pub(crate) filename: Vec<PathBuf>,

    /// Objects to start with as they are, with their uids, statuses and owners: a file, a folder, or - for
    /// stdin; can be repeated
    ///
    /// For dumps of clusters (kubectl get … -A -o yaml) and of sandboxes (kopf sandbox export). Types are
    /// checked; other rules and webhooks are not applied. References to owners that are not in the dump are
    /// dropped.
    #[arg(long, value_name = "DUMP")]
    pub(crate) dump: Vec<PathBuf>,

    /// A folder in which the objects are kept over restarts and crashes
    ///
    /// It is made if it does not exist. A change is answered when it is on disk. Manifests that are given
    /// beside it are loaded at every start.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Rules of faults to inject: a YAML or JSON file
    ///
    /// A list of rules such as {fault: error, code: 429, verbs: [patch], kind: configmaps, probability: 0.3}. The
    /// faults are error, latency, reset, halfOpen, compact, dropEvents, delayEvents, cutWatch and freezeWatch.
    /// They can be changed at run time with /kopf-sandbox/faults.
    #[arg(long, value_name = "FILE")]
    pub(crate) faults: Option<PathBuf>,

    /// Makes uids, generated names and decisions of faults repeatable
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Simulate controllers of workloads: a list of kinds, or all
    ///
    /// Kinds are pods, replicasets, deployments, statefulsets, daemonsets, jobs, services and
    /// persistentvolumeclaims, separated by commas. Pods are bound to a node and become ready, workloads create
    /// pods, services get addresses and EndpointSlices, claims are bound. The annotation
    /// sandbox.kopf.dev/simulate of an object makes it fail: crash-loop, oom-kill, image-pull-error, never-ready
    /// or pending.
    #[arg(long, value_name = "KINDS")]
    pub(crate) simulate: Option<Simulation>,

    /// The time until simulated pods are ready, in seconds; 1 by default
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "simulate",
          allow_negative_numbers = true)]
    pub(crate) ready_after: Option<Duration>,

    /// A command to run on the sandbox, with its arguments
    ///
    /// It starts when the manifests are loaded, with KUBECONFIG set to the kubeconfig. The sandbox ends with
    /// it and returns its exit code (128 and the number of the signal if one has killed it, 127 if there is
    /// no such command). Signals are passed on to it.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxTask {
    Export(ExportOptions),
    Import(ImportOptions),
}

/// Print all objects of a data folder as one list
///
/// No sandbox may use the folder at the same time.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  kopf sandbox export --data folder > dump.yaml")]
pub(crate) struct ExportOptions {
    /// The folder
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,

    /// The format of the list
    #[arg(short = 'o', long, value_enum, default_value_t = DumpFormat::Yaml)]
    pub(crate) output: DumpFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    Yaml,
    Json,
}

/// Store the objects of a dump in a data folder as they are, with their uids, statuses and owners
///
/// The folder is made if it does not exist; objects of the same names in it are replaced. No sandbox may use
/// it at the same time.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Example:\n  kubectl get all -A -o yaml | kopf sandbox import --data folder -f -"
)]
pub(crate) struct ImportOptions {
    /// The folder
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,

    /// A dump: a file, a folder, or - for stdin; can be repeated
    #[arg(short = 'f', long = "filename", value_name = "DUMP", required = true)]
    pub(crate) filename: Vec<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "must be a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "must be a positive number of seconds".to_owned())
}

/// Names are not resolved: one name can have several addresses, and the certificate needs one.
fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| {
        let hint = if text.eq_ignore_ascii_case("localhost") {
            "use 127.0.0.1"
        } else {
            "use 127.0.0.1 for this machine only, or 0.0.0.0 for all of its addresses"
        };
        format!("it is not an IP address; {hint}")
    })
}

const EXAMPLES: &str = "\
Examples:
  kopf sandbox                                  start on a free port, print how to use it
  kopf sandbox --port 6443 -f crd.yaml -f objs/ start with a definition and a folder of objects
  kubectl get pods -A -o yaml | kopf sandbox -f -    start with a copy of a cluster's pods
  kopf sandbox --kubeconfig sandbox.yaml        keep the credentials in a file of your choice
  kopf sandbox --data folder                    keep the objects in a folder
  kubectl get all -A -o yaml | kopf sandbox --dump -   start with a copy of a cluster, uids and all
  kopf sandbox -f crd.yaml -- pytest tests/     run tests on a new sandbox, return their exit code

In another terminal, with the path which is printed:
  export KUBECONFIG=…
  kubectl get namespaces";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_declaration_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn names_are_no_addresses_but_there_is_a_hint() {
        assert!(address("::1").is_ok());
        let error = address("localhost").unwrap_err();
        assert_eq!(error, "it is not an IP address; use 127.0.0.1");
        assert!(address("example").unwrap_err().contains("0.0.0.0"));
    }

    #[test]
    fn the_defaults_are_a_free_port_on_loopback() {
        let Command::Sandbox(options) = Args::parse_from(["kopf", "sandbox"]).command else {
            panic!("another command is parsed");
        };
        assert_eq!(options.port, 0);
        assert!(options.address.is_loopback());
        assert_eq!(options.kubeconfig, None);
        assert!(options.filename.is_empty());
    }
}
