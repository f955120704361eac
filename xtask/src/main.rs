//! Checks of the source tree that the compiler, clippy and cargo-deny do not make. `make lint` runs
//! all of them. They never change a file.

mod circles;
mod differences;
mod graph;
mod guide;
mod layers;
mod linked;
mod links;
mod names;
mod notices;
mod sbom;
mod surface;
mod tables;
mod texts;
mod voice;
mod workflows;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::Parser;

/// Checks the source tree: directions between crates, import circles, links, the guide, public
/// enums, forbidden text, wording, workflows.
#[derive(Debug, Parser)]
#[command(name = "xtask", version)]
enum Task {
    /// Run all checks
    Check,
    /// Report dependencies between our crates that docs/architecture.md does not allow
    Layers,
    /// Report import circles between the top-level modules of a crate
    Circles {
        /// Crates to check [default: those that must have none]
        crates: Vec<String>,
    },
    /// Report long pages of the guide, blocks that no test runs, and chapters without a page
    Guide,
    /// Report dead links in Markdown files, and pages that are not in docs/SUMMARY.md
    Links,
    /// Report exported types that are only called Error, State, Kind or the like
    Names,
    /// Print the licence texts of everything that a crate links
    Notices {
        /// The crate
        name: String,
    },
    /// Print the bill of materials of everything that a crate links, in CycloneDX
    Sbom {
        /// The crate
        name: String,
    },
    /// Report public enums of errors and reasons that users can match exhaustively
    Surface,
    /// Report tables of the reference that differ from the sources, and differences without tests
    Tables,
    /// Report paths of this machine and private package registries in files
    Texts,
    /// List the blocks of the guide that no test runs, with the reasons
    Unrun,
    /// Report wordings that CONTRIBUTING.md rules out
    Voice,
    /// Report actions of workflows that are not pinned
    Workflows,
}

fn main() -> ExitCode {
    match run(&Task::parse()) {
        Ok(problems) if problems.is_empty() => ExitCode::SUCCESS,
        Ok(problems) => {
            report(&problems);
            ExitCode::FAILURE
        }
        Err(error) => {
            report(&[format!("{error:#}")]);
            ExitCode::FAILURE
        }
    }
}

fn report(problems: &[String]) {
    let mut stderr = std::io::stderr().lock();
    for problem in problems {
        // There is no other place to report a closed stderr.
        let _ = writeln!(stderr, "error: {problem}");
    }
}

fn run(task: &Task) -> Result<Vec<String>> {
    let root = root()?;
    let mut problems = Vec::new();
    if let Task::Notices { name } = task {
        let notices = notices::notices(&root, name)?;
        std::io::stdout().write_all(notices.as_bytes())?;
    }
    if let Task::Sbom { name } = task {
        let sbom = sbom::sbom(&root, name)?;
        std::io::stdout().write_all(sbom.as_bytes())?;
    }
    if matches!(task, Task::Unrun) {
        let mut stdout = std::io::stdout().lock();
        for line in guide::unrun(&root)? {
            writeln!(stdout, "{line}")?;
        }
    }
    if matches!(task, Task::Check | Task::Layers) {
        let rules = layers::Rules::parse(&read(&root.join("docs/architecture.md"))?)?;
        problems.extend(rules.check(&graph::Graph::of(&root)?));
    }
    let crates: Vec<&str> = match task {
        Task::Circles { crates } if !crates.is_empty() => {
            crates.iter().map(String::as_str).collect()
        }
        Task::Check | Task::Circles { .. } => circles::CRATES.to_vec(),
        _ => Vec::new(),
    };
    for name in crates {
        problems.extend(circles::check(&root, name)?);
    }
    if matches!(task, Task::Check | Task::Links) {
        problems.extend(links::check(&root)?);
    }
    if matches!(task, Task::Check | Task::Guide) {
        problems.extend(guide::check(&root)?);
    }
    if matches!(task, Task::Check | Task::Names) {
        problems.extend(names::check(&root)?);
    }
    if matches!(task, Task::Check | Task::Surface) {
        problems.extend(surface::check(&root)?);
    }
    if matches!(task, Task::Check | Task::Tables) {
        problems.extend(tables::check(&root)?);
        problems.extend(differences::check(&root)?);
    }
    if matches!(task, Task::Check | Task::Texts) {
        problems.extend(texts::check(&root)?);
    }
    if matches!(task, Task::Check | Task::Voice) {
        problems.extend(voice::check(&root)?);
    }
    if matches!(task, Task::Check | Task::Workflows) {
        problems.extend(workflows::check(&root)?);
    }
    Ok(problems)
}

/// Returns the folder of the workspace.
fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here
        .parent()
        .context("xtask has no parent folder")?
        .to_owned())
}

/// Returns the folder with the sources of a crate. Crates of the sandbox have their own folder.
fn sources(root: &Path, name: &str) -> PathBuf {
    let folder = match name.strip_prefix("kopf-sandbox") {
        Some("") => root.join("sandbox/server"),
        Some(layer) => root.join("sandbox").join(layer.trim_start_matches('-')),
        None => root.join("crates").join(name),
    };
    folder.join("src")
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Adds all Rust files of a folder, sorted.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let cannot = || format!("cannot read {}", folder.display());
    let mut entries = std::fs::read_dir(folder)
        .with_context(cannot)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .with_context(cannot)?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Runs a program in a folder and returns its stdout.
fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!(
            "{program} {} failed: {}",
            arguments.join(" "),
            output.status
        );
    }
    Ok(output.stdout)
}
