//! `kopf explore --replay`: files of findings, and their repetition.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::Settings;
use crate::duration::parse_duration;
use crate::explore::{Exploration, working_folder};
use crate::invariant::{Invariant, Moment};
use crate::mask::MaskedField;
use crate::outcome::{Finding, Outcome, Replayed};
use crate::report::{self, Replay, Setup, lines_of};
use crate::run::{ProcessLauncher, World};
use kopf_inspect::{Failure, Screen, Style};
use kopf_sandbox::manifests::Manifests;
use kopf_sandbox::simulation::{Simulation, UnknownKind};
use tokio_util::sync::CancellationToken;

use super::args::{ExploreOptions, ReportFormat};
use super::{FOUND, READY_AFTER, of_exploration, of_manifests, read, show, write_junit};

/// The name of stdin among manifests.
const STDIN: &str = "-";

/// Returns the file of a finding, which is written into a folder. Its paths are relative to that, so
/// that both can be moved together.
pub(super) fn file_of(options: &ExploreOptions, finding: &Finding, folder: &Path) -> Replay {
    let millis = |time: std::time::Duration| Some(format!("{}ms", time.as_millis()));
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let path = |path: &PathBuf| {
        if path.as_os_str() == STDIN {
            return STDIN.to_owned();
        }
        relative(path, folder).display().to_string()
    };
    let invariants = |moment: Moment, all: &[Invariant]| {
        let all = all.iter().filter(|one| one.moment() == moment);
        all.map(|one| one.text().to_owned()).collect()
    };
    Replay {
        setup: Setup {
            folder: Some(relative(Path::new("."), folder).display().to_string()),
            command: options.command.iter().map(text).collect(),
            manifests: options.filename.iter().map(path).collect(),
            simulate: options.simulate.as_ref().map(|kinds| kinds.text.clone()),
            settle: millis(options.settle),
            limit: millis(options.limit),
            grace: millis(options.grace),
            replicas: (options.replicas > 1).then_some(options.replicas),
            ignore: options.ignore.iter().map(ToString::to_string).collect(),
            without: options.without.clone(),
            always: invariants(Moment::Always, &options.always),
            finally: invariants(Moment::Finally, &options.finally),
        },
        scenario: finding.scenario.clone(),
        deviation: finding.deviation.clone(),
        effect: finding
            .complaints
            .iter()
            .map(|one| one.summary.clone())
            .collect(),
    }
}

/// Returns a path as seen from a folder. Both may be relative to the current one.
fn relative(path: &Path, folder: &Path) -> PathBuf {
    let (Ok(to), Ok(from)) = (std::path::absolute(path), std::path::absolute(folder)) else {
        return path.to_owned();
    };
    let (to, from) = (normal(&to), normal(&from));
    let pairs = to.components().zip(from.components());
    let common = pairs.take_while(|(one, other)| one == other).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    let relative: PathBuf = up.chain(to.components().skip(common)).collect();
    if relative.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        relative
    }
}

/// Returns an absolute path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

/// Returns a file as it is written into another folder.
fn moved(mut file: Replay, base: &Path, folder: &Path) -> Replay {
    let setup = &mut file.setup;
    for path in setup.manifests.iter_mut().chain(&mut setup.folder) {
        if path != STDIN {
            *path = relative(&base.join(&*path), folder).display().to_string();
        }
    }
    file
}

/// Repeats the finding of a file.
pub(super) async fn replay(
    options: &ExploreOptions,
    path: &Path,
    screen: &Screen,
    stop: &CancellationToken,
) -> Result<u8, Failure> {
    let file = Replay::parse(&path.display().to_string(), &read(path)?)
        .map_err(|error| Failure::plain(error.to_string()))?;
    let settings = settings(options, &file.setup).map_err(|why| invalid(path, &why))?;
    let folder = working_folder(None)
        .map_err(|error| Failure::new("cannot create a folder for temporary files", &error))?;
    let exploration = Exploration {
        world: world(options, path, &file.setup)?,
        scenario: file.scenario.clone(),
        variations: Vec::new(),
        settings,
        folder: folder.path().to_owned(),
    };
    let replayed = exploration.replay(file.deviation.as_ref(), stop).await;
    let replayed = replayed.map_err(of_exploration)?;
    publish(options, screen, &file, path, replayed)
}

fn invalid(path: &Path, why: &str) -> Failure {
    Failure::plain(format!("invalid setup in {}: {why}", path.display()))
}

fn world(options: &ExploreOptions, path: &Path, setup: &Setup) -> Result<World, Failure> {
    let base = path.parent().unwrap_or(Path::new(""));
    let simulation = setup.simulate.as_deref().map(str::parse).transpose();
    let simulation: Option<Simulation> =
        simulation.map_err(|error: UnknownKind| invalid(path, &error.to_string()))?;
    let manifests: Vec<PathBuf> = setup
        .manifests
        .iter()
        .map(|name| match name.as_str() {
            STDIN => PathBuf::from(STDIN),
            name => base.join(name),
        })
        .collect();
    let launcher = if options.command.is_empty() {
        let command = setup.command.iter().map(OsString::from).collect();
        let launcher = ProcessLauncher::new(command);
        match &setup.folder {
            Some(folder) => launcher.folder(base.join(folder)),
            None => launcher,
        }
    } else {
        ProcessLauncher::new(options.command.clone())
    };
    Ok(World {
        manifests: Manifests::read(&manifests).map_err(of_manifests)?,
        simulation: simulation.map(|simulation| simulation.ready_after(READY_AFTER)),
        launcher: Arc::new(launcher),
    })
}

/// Returns the settings of the options, as far as the file has no others.
fn settings(options: &ExploreOptions, setup: &Setup) -> Result<Settings, String> {
    let mut settings = super::settings(options);
    for (text, to) in [
        (&setup.settle, &mut settings.settle),
        (&setup.limit, &mut settings.limit),
        (&setup.grace, &mut settings.grace),
    ] {
        if let Some(text) = text {
            *to = parse_duration(text)?;
        }
    }
    if let Some(replicas) = setup.replicas {
        settings.replicas = usize::from(replicas);
    }
    for text in &setup.ignore {
        let field = MaskedField::parse(text).map_err(|error| error.to_string())?;
        settings.ignore.push(field);
    }
    settings.without.extend(&setup.without);
    let always = setup.always.iter().map(|text| (Moment::Always, text));
    let finally = setup.finally.iter().map(|text| (Moment::Finally, text));
    for (moment, text) in always.chain(finally) {
        settings.invariants.push(Invariant::parse(moment, text)?);
    }
    Ok(settings)
}

/// Prints what happened, and writes the report if one is wanted. Returns the exit code.
fn publish(
    options: &ExploreOptions,
    screen: &Screen,
    file: &Replay,
    path: &Path,
    replayed: Replayed,
) -> Result<u8, Failure> {
    let mut outcome = Outcome {
        plans: 1,
        done: 1,
        ..Outcome::default()
    };
    let is_text = options.output == ReportFormat::Text;
    let say = |style: Style, text: &str| {
        if is_text {
            screen.line(&[(style, text)]);
        }
    };
    let tell = |finding: &Finding| {
        for line in report::journal_lines(&finding.journal) {
            say(Style::Plain, &line);
        }
    };
    let mut result = Ok(0);
    match replayed {
        Replayed::Found(finding) => {
            tell(&finding);
            if is_text {
                screen.plain("");
                show(screen, lines_of(&finding));
            }
            outcome.findings.push(finding);
            result = Ok(FOUND);
        }
        Replayed::Clean(finding) => {
            tell(&finding);
            say(Style::Good, "the finding does not repeat");
        }
        Replayed::NotReached(finding) => {
            tell(&finding);
            outcome.not_reached = 1;
            result = Err(not_reached(file));
        }
        Replayed::NotAdmitted => {
            say(Style::Plain, "the API server rejects the variation");
            outcome.not_admitted = 1;
        }
    }
    if !is_text {
        screen.plain(&format!("{:#}", report::json(&outcome)));
    }
    if let Some(folder) = &options.report {
        let base = path.parent().unwrap_or(Path::new(""));
        let replays = outcome.findings.iter();
        let replays: Vec<Replay> = replays.map(|_| moved(file.clone(), base, folder)).collect();
        report::write(folder, &outcome, &replays)
            .map_err(|error| Failure::new(format!("cannot write {}", folder.display()), &error))?;
    }
    write_junit(options, &outcome)?;
    result
}

fn not_reached(file: &Replay) -> Failure {
    let deviation = file.deviation.as_ref().map(ToString::to_string);
    Failure::plain(format!(
        "the point of the deviation was not reached: {}",
        deviation.unwrap_or_default()
    ))
    .advise("the operator sends other requests than before: explore it again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_file() {
        let seen = |path: &str, folder: &str| relative(Path::new(path), Path::new(folder));
        assert_eq!(seen("crd.yaml", "report"), Path::new("../crd.yaml"));
        assert_eq!(seen("./a/../crd.yaml", "."), Path::new("crd.yaml"));
        assert_eq!(seen("/x/crd.yaml", "/x/y/z"), Path::new("../../crd.yaml"));
        assert_eq!(seen(".", "."), Path::new("."));
    }

    #[test]
    fn moved_files_find_the_same_manifests() {
        let file = Replay {
            setup: Setup {
                folder: Some("..".to_owned()),
                manifests: vec!["../crd.yaml".to_owned(), STDIN.to_owned()],
                ..Setup::default()
            },
            scenario: crate::scenario::Scenario::default(),
            deviation: None,
            effect: Vec::new(),
        };
        let moved = moved(file, Path::new("/x/report"), Path::new("/x/other/deep"));
        assert_eq!(moved.setup.manifests, ["../../crd.yaml", STDIN]);
        assert_eq!(moved.setup.folder.as_deref(), Some("../.."));
    }
}
