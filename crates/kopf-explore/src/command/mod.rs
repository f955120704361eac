//! `kopf explore`: explores an operator on sandboxes, and reports what it finds.

mod args;
mod progress;
mod replay;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::explore::{Exploration, ExploreError, working_folder};
use crate::outcome::Outcome;
use crate::report::{self, Line, Mark, Replay, lines_of, summary};
use crate::run::{ProcessLauncher, RunError, World, survey};
use crate::scenario::{self, Scenario, variations};
use clap::Parser as _;
use kopf_inspect::{Failure, Screen, Style};
use kopf_sandbox::manifests::Manifests;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use self::args::ExploreOptions;
use self::args::ReportFormat;
use self::progress::Progress;
use crate::Settings;

/// Exit code of findings.
const FOUND: u8 = 1;
/// Exit code of invalid usage, and of operators that are not stable without any deviation.
const UNUSABLE: u8 = 2;
/// The folder of the report, unless another one is given.
const REPORT: &str = "kopf-explore-report";
/// The time until simulated pods are ready. The default of a sandbox is for people who watch.
const READY_AFTER: Duration = Duration::from_millis(200);

/// Runs the command in a new runtime. Returns the exit code.
pub fn run(options: &ExploreOptions) -> u8 {
    let screen = Screen::detect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(run_within(options, &screen)),
        Err(error) => {
            screen.failure(&Failure::new("cannot start the runtime", &error));
            UNUSABLE
        }
    }
}

/// Parses a command line that begins with `explore`, and runs it. Returns the exit code.
pub fn run_line(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments = [OsString::from("kopf")].into_iter().chain(arguments);
    match self::args::Line::try_parse_from(arguments) {
        Ok(line) => run(line.options()),
        Err(error) => {
            // stderr may be closed.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(UNUSABLE)
        }
    }
}

/// Returns the failure of manifests that cannot be read or loaded.
#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn of_manifests(error: kopf_sandbox::manifests::Error) -> Failure {
    Failure::from_parts(error.what(), error.causes(), error.advice())
}

/// Explores until the end, a signal or a failure.
async fn run_within(options: &ExploreOptions, screen: &Screen) -> u8 {
    let stop = CancellationToken::new();
    let work = async {
        match &options.replay {
            Some(path) => replay::replay(options, path, screen, &stop).await,
            None => explore(options, screen, &stop).await,
        }
    };
    tokio::pin!(work);
    let result = tokio::select! {
        result = &mut work => result,
        () = signal() => {
            stop.cancel();
            work.await
        }
    };
    match result {
        Ok(code) => code,
        Err(failure) => {
            screen.failure(&failure);
            UNUSABLE
        }
    }
}

/// Waits for Ctrl-C, SIGTERM or the end of the terminal.
async fn signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let signals = (
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
        );
        if let (Ok(mut terminate), Ok(mut hangup)) = signals {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            return;
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn explore(
    options: &ExploreOptions,
    screen: &Screen,
    stop: &CancellationToken,
) -> Result<u8, Failure> {
    let world = world(options)?;
    let (scenario, schema) = scenario_of(options, &world).await?;
    if options.print_scenario {
        screen.plain(scenario.to_yaml().trim_end());
        return Ok(0);
    }
    if options.command.is_empty() {
        return Err(Failure::plain("no command is given").advise(
            "end the command line with -- and the command of the operator, such as -- python -m my_operator",
        ));
    }
    let folder = working_folder(None)
        .map_err(|error| Failure::new("cannot create a folder for temporary files", &error))?;
    let variations = scenario
        .subject()
        .map(|object| variations(object, schema.as_ref()))
        .unwrap_or_default();
    let exploration = Exploration {
        world,
        scenario,
        variations,
        settings: settings(options),
        folder: folder.path().to_owned(),
    };
    let is_text = options.output == ReportFormat::Text;
    let progress = Progress::new(screen, options.time, is_text);
    let outcome = exploration.run(stop, &|news| progress.on(news)).await;
    progress.end();
    let outcome = outcome.map_err(of_exploration)?;
    publish(options, screen, &outcome)?;
    if !outcome.findings.is_empty() {
        return Ok(FOUND);
    }
    // "Nothing found" must not be said of an exploration that did not take place.
    if let Some(failed) = outcome.failed.first() {
        let count = outcome.failed.len();
        return Err(Failure::plain(format!(
            "{count} of {} plans could not be run: {}",
            outcome.plans, failed.why
        ))
        .advise("correct the cause, and explore again: nothing is known about these plans"));
    }
    if stop.is_cancelled() {
        return Err(Failure::plain(
            "the exploration was interrupted before all plans were run",
        ));
    }
    if outcome.done == outcome.not_reached + outcome.not_admitted {
        let advice =
            "give it more time or plans with --time and --plans, or other deviations with --only";
        let advice = outcome.unmet.clone().unwrap_or_else(|| advice.to_owned());
        return Err(
            Failure::plain("no plan was run: nothing is known about the operator").advise(advice),
        );
    }
    Ok(0)
}

/// Prints the report, and writes it. What was found is printed even if it cannot be written.
fn publish(options: &ExploreOptions, screen: &Screen, outcome: &Outcome) -> Result<(), Failure> {
    let has_findings = !outcome.findings.is_empty();
    let folder = match &options.report {
        Some(folder) => Some(folder.clone()),
        None => has_findings.then(|| PathBuf::from(REPORT)),
    };
    if options.output == ReportFormat::Json {
        screen.plain(&format!("{:#}", report::json(outcome)));
    } else {
        print(screen, outcome, folder.as_deref());
    }
    let replays = |folder: &Path| {
        let replays = outcome.findings.iter();
        let replays = replays.map(|one| replay::file_of(options, one, folder));
        replays.collect::<Vec<Replay>>()
    };
    if let Some(folder) = &folder {
        report::write(folder, outcome, &replays(folder))
            .map_err(|error| Failure::new(format!("cannot write {}", folder.display()), &error))?;
    }
    write_junit(options, outcome)
}

fn write_junit(options: &ExploreOptions, outcome: &Outcome) -> Result<(), Failure> {
    match &options.junit {
        Some(file) => std::fs::write(file, report::junit(outcome))
            .map_err(|error| Failure::new(format!("cannot write {}", file.display()), &error)),
        None => Ok(()),
    }
}

fn print(screen: &Screen, outcome: &Outcome, folder: Option<&Path>) {
    for finding in &outcome.findings {
        show(screen, lines_of(finding));
        if let Some(folder) = folder {
            let file = folder.join(format!("finding-{}.yaml", finding.number));
            let command = format!("kopf explore --replay {}", file.display());
            screen.line(&[(Style::Faint, "  Replay: "), (Style::Command, &command)]);
        }
        screen.plain("");
    }
    show(screen, summary(outcome));
    if let Some(folder) = folder {
        let page = folder.join("index.html");
        screen.line(&[
            (Style::Faint, "report: "),
            (Style::Plain, &page.display().to_string()),
        ]);
    }
}

fn show(screen: &Screen, lines: impl IntoIterator<Item = Line>) {
    for line in lines {
        let style = match line.mark {
            Mark::Heading => Style::Strong,
            Mark::Expected => Style::Removed,
            Mark::Found => Style::Added,
            Mark::Faint => Style::Faint,
            _ => Style::Plain,
        };
        screen.line(&[(style, &line.text)]);
    }
}

fn world(options: &ExploreOptions) -> Result<World, Failure> {
    let simulation = options
        .simulate
        .as_ref()
        .map(|kinds| kinds.simulation.clone());
    Ok(World {
        manifests: Manifests::read(&options.filename).map_err(of_manifests)?,
        simulation: simulation.map(|simulation| simulation.ready_after(READY_AFTER)),
        launcher: Arc::new(ProcessLauncher::new(options.command.clone())),
    })
}

fn settings(options: &ExploreOptions) -> Settings {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let invariants = options.always.iter().chain(&options.finally);
    Settings {
        settle: options.settle,
        limit: options.limit,
        grace: options.grace,
        time: options.time,
        plans: options.plans,
        jobs: options.jobs.map_or(cores * 2, usize::from),
        seed: options.seed,
        only: options.only.iter().flat_map(|one| one.0.clone()).collect(),
        without: options.without.clone(),
        ignore: options.ignore.clone(),
        invariants: invariants.cloned().collect(),
        fail_fast: options.fail_fast,
        reduce: !options.no_reduce,
        replicas: usize::from(options.replicas),
        ..Settings::default()
    }
}

/// Returns the scenario, and the schema of its object. The manifests and the object are checked by a
/// sandbox.
async fn scenario_of(
    options: &ExploreOptions,
    world: &World,
) -> Result<(Scenario, Option<Value>), Failure> {
    if let Some(path) = &options.scenario {
        let text = read(path)?;
        let scenario = scenario::parse(&path.display().to_string(), &text)
            .map_err(|error| Failure::plain(error.to_string()))?;
        let surveyed = survey(world, scenario.subject()).await.map_err(of_run)?;
        return Ok((scenario, surveyed.schema));
    }
    let Some(path) = &options.object else {
        return Err(Failure::plain("no scenario is given")
            .advise("give --object FILE with one object, or --scenario FILE with steps"));
    };
    let invalid = |why: String| {
        Failure::plain(format!("{}: {why}", path.display()))
            .advise("give a manifest of one object, with apiVersion, kind and metadata.name")
    };
    let text = read(path)?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text)
        .map_err(|error| invalid(error.without_snippet().to_string()))?;
    let [object] = objects.as_slice() else {
        return Err(invalid(format!("{} objects", objects.len())));
    };
    let surveyed = survey(world, Some(object)).await.map_err(of_run)?;
    let scenario = scenario::derive(object, surveyed.schema.as_ref())
        .ok_or_else(|| invalid("not an object".to_owned()))?;
    Ok((scenario, surveyed.schema))
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("cannot read {}", path.display()), &error))
}

fn of_run(error: RunError) -> Failure {
    match error {
        RunError::Manifests(error) => of_manifests(error),
        RunError::Rejected { object, rejection } => {
            Failure::plain(format!("the API server rejects {object}: {rejection}"))
                .advise("correct the object; are all CRDs among the manifests (-f)?")
        }
        error => Failure::new("cannot explore", &error),
    }
}

fn of_exploration(error: ExploreError) -> Failure {
    match error {
        ExploreError::Run(error) => of_run(error),
        ExploreError::Reference {
            what,
            advice,
            output,
        } => Failure::from_parts(&what, &output, Some(&advice)),
        ExploreError::NonDeterministic(error) => Failure::plain(error.to_string()).advise(
            "make the names of objects predictable, exclude fields by --ignore PATH, or increase --settle",
        ),
        error => Failure::plain(error.to_string()),
    }
}
