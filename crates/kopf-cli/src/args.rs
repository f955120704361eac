//! The command line: options, defaults and help texts.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use kopf::cli::{FreezeArgs, PeeringArgs, ResumeArgs};
use kopf_explore::command::ExploreOptions;
use kopf_sandbox::ServiceUrl;
use kopf_sandbox::simulation::Simulation;

/// Tools for Kubernetes operators: project templates, a demo, a sandbox API server, an explorer that
/// finds bugs, and commands that pause running operators and inspect the objects they handle.
#[derive(Debug, Parser)]
#[command(name = "kopf", version, propagate_version = true, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 on success, 1 on failure, 2 on invalid usage. `kopf sandbox … -- COMMAND` returns the
exit code of the command.
Set NO_COLOR to disable colours on a terminal. Output to a pipe has no colours.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Sandbox(Box<SandboxOptions>),
    Explore(Box<ExploreOptions>),
    Demo(DemoOptions),
    Freeze(Box<FreezeArgs>),
    Resume(Box<ResumeArgs>),
    Peering(PeeringArgs),
    New(NewOptions),
    Completions(CompletionsOptions),
    Manual(ManualOptions),
    #[command(flatten)]
    Inspect(kopf_inspect::Command),
}

/// Create a project: an operator with its tests, a Dockerfile, manifests and a CI workflow
///
/// The project compiles, and its tests pass without a cluster. An existing folder must be empty.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Examples:\n  kopf new my-operator\n  kopf new my-operator --python --path ops/my"
)]
pub(crate) struct NewOptions {
    /// Name of the project: lower-case letters, digits and dashes
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Write the operator in Python instead of Rust
    #[arg(long)]
    pub(crate) python: bool,

    /// Folder to create [default: ./NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,

    /// Kopf itself: the folder of its sources or, with --python, a wheel [default: a release]
    #[arg(long, value_name = "PATH")]
    pub(crate) kopf_path: Option<PathBuf>,
}

/// Print the completions of this command for a shell
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    kopf completions bash > ~/.local/share/bash-completion/completions/kopf\n  \
    kopf completions fish > ~/.config/fish/completions/kopf.fish\n  \
    kopf completions zsh > ~/.zfunc/_kopf    # a folder in $fpath")]
pub(crate) struct CompletionsOptions {
    /// Shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Write the manual pages of this command, for packages
#[derive(Debug, ClapArgs)]
#[command(hide = true)]
pub(crate) struct ManualOptions {
    /// Folder for the pages; it is created if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Show an operator at work, step by step, and keep it running until Ctrl-C
///
/// Starts a sandbox with a custom resource, and an operator with a few handlers. Creates, changes
/// and deletes an object, and prints handler calls, retries, diffs and the resulting object.
/// Requires neither a cluster nor kubectl, and changes nothing on this machine.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  kopf demo\n  kopf demo --once")]
pub(crate) struct DemoOptions {
    /// Exit after the last step
    #[arg(long)]
    pub(crate) once: bool,
}

/// Run a Kubernetes API server in this process until Ctrl-C, or while a command runs
///
/// Serves the Kubernetes API over TLS: kubectl and other clients can use it as a cluster. Objects
/// are stored, validated, watched and deleted as in a real cluster, but there are no nodes and no
/// containers: a Deployment creates pods only with --simulate. Objects are kept in memory until the
/// process ends, or in a folder (--data).
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct SandboxOptions {
    #[command(subcommand)]
    pub(crate) task: Option<SandboxTask>,

    /// Port to listen on; 0 selects a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,

    /// Address to listen on; with any other than loopback, the whole network can connect
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST),
          value_parser = address)]
    pub(crate) address: IpAddr,

    /// Authorise requests by roles and bindings
    ///
    /// By default, all authenticated users have all permissions. The administrator of the
    /// kubeconfig always has them.
    #[arg(long)]
    pub(crate) rbac: bool,

    /// File for the kubeconfig with the credentials; it is not removed when the sandbox stops
    ///
    /// An existing file is replaced only if a sandbox has written it. By default, a file in the
    /// runtime folder of the user or in the folder for temporary files, which is removed when the
    /// sandbox stops.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Objects to create at the start: a file, a folder, or - for stdin; can be repeated
    ///
    /// Files are YAML (with any number of documents) or JSON; the items of lists are created.
    /// Folders are read recursively: all *.yaml, *.yml and *.json files, sorted by name. CRDs and
    /// namespaces are created first, webhook configurations last, all others in the given order,
    /// but owners before their dependents. Missing namespaces are created.
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST")]
    pub(crate) filename: Vec<PathBuf>,

    /// Objects to restore unchanged, with uids, statuses and owners: a file, a folder, or - for
    /// stdin; can be repeated
    ///
    /// For dumps of clusters (kubectl get … -A -o yaml) and of sandboxes (kopf sandbox export).
    /// Types are validated; other rules and webhooks are not applied. References to owners outside
    /// the dump are dropped.
    #[arg(long, value_name = "DUMP")]
    pub(crate) dump: Vec<PathBuf>,

    /// Folder that keeps the objects across restarts and crashes
    ///
    /// It is created if it does not exist. Responses to writes are sent after the data is on disk.
    /// Manifests (-f) are loaded at every start.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Rules for fault injection: a YAML or JSON file
    ///
    /// A list of rules such as {fault: error, code: 429, verbs: [patch], kind: configmaps,
    /// probability: 0.3}. The faults are error, latency, reset, halfOpen, compact, dropEvents,
    /// delayEvents, cutWatch, freezeWatch and lag. They can be changed at run time at
    /// /kopf-sandbox/faults.
    #[arg(long, value_name = "FILE")]
    pub(crate) faults: Option<PathBuf>,

    /// Seed of uids, generated names and injected faults, for repeatable runs
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Simulate workload controllers: a list of kinds, or all
    ///
    /// Kinds are pods, replicasets, deployments, statefulsets, daemonsets, jobs, services,
    /// persistentvolumeclaims and namespaces, separated by commas. Pods are bound to a node and
    /// become ready, workloads create pods, services get addresses, EndpointSlices and Endpoints,
    /// claims are bound, namespaces get the service account default and kube-root-ca.crt. The
    /// annotation sandbox.kopf.dev/simulate of an object makes it fail: crash-loop, oom-kill,
    /// image-pull-error, never-ready or pending.
    #[arg(long, value_name = "KINDS")]
    pub(crate) simulate: Option<Simulation>,

    /// Seconds until simulated pods are ready [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "simulate",
          allow_negative_numbers = true)]
    pub(crate) ready_after: Option<Duration>,

    /// Server behind a Service of webhooks: NAMESPACE/NAME=https://HOST[:PORT][/PATH]; can be repeated
    ///
    /// Webhook configurations and CRDs can refer to a Service, but no pods run here. The Service need
    /// not exist. The certificate of the server must be for NAME.NAMESPACE.svc, as in a cluster.
    #[arg(long, value_name = "SERVICE=URL")]
    pub(crate) service: Vec<ServiceUrl>,

    /// Logs of simulated containers and results of commands in them: a YAML or JSON file
    ///
    /// A list of answers such as {pod: db-*, logs: ready} and {pod: db-0, command: [pg_isready],
    /// stdout: ok, stderr: "", exitCode: 0}, optionally with a namespace and a container. A command
    /// matches if it starts with the given words; * stands for any characters. The last matching
    /// answer applies. Other logs are empty, and other commands fail with the exit code 127.
    #[arg(long, value_name = "FILE", requires = "simulate")]
    pub(crate) answers: Option<PathBuf>,

    /// Command to run on the sandbox, with its arguments
    ///
    /// It starts after the manifests are loaded, with KUBECONFIG set to the kubeconfig. Signals are
    /// forwarded to it. The sandbox stops when it exits, and returns its exit code: 128 plus the
    /// number of the signal if a signal killed it, 127 if it does not exist.
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
/// The folder must not be in use by a running sandbox.
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

/// Store the objects of a dump in a data folder unchanged, with uids, statuses and owners
///
/// The folder is created if it does not exist; existing objects with the same names are replaced.
/// The folder must not be in use by a running sandbox.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Example:\n  kubectl get all -A -o yaml | kopf sandbox import --data folder -f -"
)]
pub(crate) struct ImportOptions {
    /// The folder
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,

    /// Dump: a file, a folder, or - for stdin; can be repeated
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

/// Parses an IP address. Names are rejected: a name can have several addresses, and the certificate
/// contains one.
fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| {
        let hint = if text.eq_ignore_ascii_case("localhost") {
            "use 127.0.0.1"
        } else {
            "use 127.0.0.1 for this machine only, or 0.0.0.0 for all of its addresses"
        };
        format!("not an IP address; {hint}")
    })
}

const EXAMPLES: &str = "\
Examples:
  kopf sandbox                                  start on a free port
  kopf sandbox --port 6443 -f crd.yaml -f objs/ load a CRD and a folder of objects
  kubectl get pods -A -o yaml | kopf sandbox -f -    load a copy of a cluster's pods
  kopf sandbox --kubeconfig sandbox.yaml        write the credentials to this file
  kopf sandbox --data folder                    keep the objects in a folder
  kubectl get all -A -o yaml | kopf sandbox --dump -   restore a copy of a cluster, with uids
  kopf sandbox -f crd.yaml -- pytest tests/     run tests on a new sandbox, return their exit code

In another terminal, with the printed path:
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
    fn host_names_are_rejected_with_a_hint() {
        assert!(address("::1").is_ok());
        let error = address("localhost").unwrap_err();
        assert_eq!(error, "not an IP address; use 127.0.0.1");
        assert!(address("example").unwrap_err().contains("0.0.0.0"));
    }

    #[test]
    fn the_defaults_are_a_free_port_on_loopback() {
        let Command::Sandbox(options) = Args::parse_from(["kopf", "sandbox"]).command else {
            panic!("not a sandbox command");
        };
        assert_eq!(options.port, 0);
        assert!(options.address.is_loopback());
        assert_eq!(options.kubeconfig, None);
        assert!(options.filename.is_empty());
    }
}
