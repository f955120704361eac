//! The options of `kopf explore`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::deviation::Selected;
use crate::duration::parse_duration;
use crate::invariant::{Invariant, Moment};
use crate::mask::MaskedField;
use crate::oracle::Oracle;
use clap::{Args, Parser, Subcommand, ValueEnum};
use kopf_sandbox::simulation::{Simulation, UnknownKind};

/// Find the bugs of an operator in any language: crashes between writes, stale caches, lost updates
///
/// Runs the operator on sandboxes while a scenario changes objects: first undisturbed, then again and
/// again with one thing going wrong each time, at every point where that can matter. The operator is
/// killed, requests are rejected, responses lost, events withheld, the API server lags. Whatever does
/// not return to the state of the undisturbed run is a finding. Requires neither a cluster nor changes
/// to the operator.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExploreOptions {
    /// Objects that exist before the operator starts, with its CRDs: a file, a folder, or - for stdin;
    /// can be repeated
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST")]
    pub(crate) filename: Vec<PathBuf>,

    /// Steps of the user: a YAML file
    ///
    /// A list `steps` of apply (an object or a file), patch (apiVersion, kind, name, merge), delete,
    /// wait ({for: CEL}), sleep (500ms), restart (operator) and simulate (a failure of workloads).
    /// After each step the operator settles, unless the step has `settle: false`.
    #[arg(long, value_name = "FILE", conflicts_with = "object")]
    pub(crate) scenario: Option<PathBuf>,

    /// Object from which a scenario is derived: created, changed by fields of its schema, reverted,
    /// deleted
    #[arg(long, value_name = "FILE")]
    pub(crate) object: Option<PathBuf>,

    /// Repeat a finding from its file, and print what happens step by step
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenario", "object", "filename"])]
    pub(crate) replay: Option<PathBuf>,

    /// Print the scenario and exit
    #[arg(long)]
    pub(crate) print_scenario: bool,

    /// Maximum time for the plans, such as 10m; the reference runs come before
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) time: Option<Duration>,

    /// Maximum number of plans; those that find most come first
    #[arg(long, value_name = "NUMBER")]
    pub(crate) plans: Option<usize>,

    /// Number of parallel runs [default: twice the number of cores]
    ///
    /// Each has its own sandbox and operator. If the operator listens on a port, write {port} in its
    /// command, or use --jobs 1.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,

    /// Number of processes of the operator in each run, for operators that elect a leader
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=5))]
    pub(crate) replicas: u16,

    /// Seed of uids, generated names and the order of plans
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Deviations to explore, separated by commas [default: all]
    ///
    /// crash (crash-before and crash-after a write), lost-response, reject, interfere (another client
    /// writes), stale (restart on a lagging server), gap (unobserved states), reorder, expire (410 of
    /// watches), overlap (two copies), term (SIGTERM), slow, respec (fields of the object change), freeze
    /// (the leader stands still; needs --replicas 2), lease (the leader loses its lease).
    #[arg(long, value_name = "DEVIATIONS", value_delimiter = ',')]
    pub(crate) only: Vec<Selected>,

    /// Oracles to turn off, separated by commas
    ///
    /// converged, quiet, released, safe, alive, modest, invariants.
    #[arg(long, value_name = "ORACLES", value_delimiter = ',')]
    pub(crate) without: Vec<Oracle>,

    /// Simulate workload controllers: a list of kinds, or all; see kopf sandbox --help
    #[arg(long, value_name = "KINDS")]
    pub(crate) simulate: Option<Simulated>,

    /// Time without changes after which the operator counts as settled
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse_duration)]
    pub(crate) settle: Duration,

    /// Maximum time of one step; longer than the longest delay of a retry of the operator
    #[arg(long, value_name = "TIME", default_value = "90s", value_parser = parse_duration)]
    pub(crate) limit: Duration,

    /// Maximum time to exit after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) grace: Duration,

    /// CEL expression that must hold after every commit; can be repeated
    ///
    /// Variables: object (the committed object; null if it is deleted), objects (all), history (all
    /// commits: change, resource, namespace, name, actor).
    #[arg(long, value_name = "CEL", value_parser = always)]
    pub(crate) always: Vec<Invariant>,

    /// CEL expression that must hold at the end; can be repeated
    #[arg(long, value_name = "CEL", value_parser = finally)]
    pub(crate) finally: Vec<Invariant>,

    /// Field that is not compared, such as status.lastSeen or configmaps:data.time; can be repeated
    #[arg(long, value_name = "PATH", value_parser = MaskedField::parse)]
    pub(crate) ignore: Vec<MaskedField>,

    /// Folder for the report: a page, JSON, and for each finding a file to replay it and the log
    ///
    /// It is created if there are findings; with this option, always.
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,

    /// JUnit XML file for CI systems
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// Format of the output
    #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) output: ReportFormat,

    /// Stop after the first finding
    #[arg(long)]
    pub(crate) fail_fast: bool,

    /// Report findings with all steps, without trying which of them are needed
    #[arg(long)]
    pub(crate) no_reduce: bool,

    /// Command of the operator, with its arguments
    ///
    /// It gets KUBECONFIG, and is started and killed with all its children. Its output goes to a file
    /// per run.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// A command line with this command alone.
#[derive(Debug, Parser)]
#[command(name = "kopf")]
pub(crate) struct Line {
    #[command(subcommand)]
    command: Only,
}

#[derive(Debug, Subcommand)]
enum Only {
    Explore(Box<ExploreOptions>),
}

impl Line {
    pub(crate) fn options(&self) -> &ExploreOptions {
        let Only::Explore(options) = &self.command;
        options
    }
}

/// Simulated kinds, with their text for files of findings.
#[derive(Debug, Clone)]
pub(crate) struct Simulated {
    pub(crate) text: String,
    pub(crate) simulation: Simulation,
}

impl FromStr for Simulated {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Ok(Self {
            text: text.to_owned(),
            simulation: text.parse()?,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    Text,
    Json,
}

fn always(text: &str) -> Result<Invariant, String> {
    Invariant::parse(Moment::Always, text)
}

fn finally(text: &str) -> Result<Invariant, String> {
    Invariant::parse(Moment::Finally, text)
}

const EXAMPLES: &str = "\
Examples:
  kopf explore -f crd.yaml --object cr.yaml -- python -m my_operator
  kopf explore -f crd.yaml --scenario steps.yaml --time 10m -- ./manager --metrics-bind-address :{port}
  kopf explore -f crd.yaml --object cr.yaml --only crash,stale --junit junit.xml -- ./manager
  kopf explore -f crd.yaml --object cr.yaml --print-scenario
  kopf explore --replay kopf-explore-report/finding-1.yaml

Exit codes: 0 if nothing is found, 1 with findings, 2 on invalid usage or if the operator is not stable
without any deviation.";
