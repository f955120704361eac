//! Checks of the whole tree that neither the compiler, nor clippy, nor cargo-deny can make. `make lint`
//! runs them all.
//!
//! It only reads and reports: it never changes a file.

mod graph;
mod layers;
mod texts;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::Parser;

/// Checks the whole tree: allowed directions between crates, texts.
#[derive(Debug, Parser)]
#[command(name = "xtask", version)]
enum Task {
    /// Run all the checks below
    Check,
    /// Fail on a dependency between our crates which docs/architecture.md does not allow
    Layers,
    /// Fail on a file which names a path of this machine or a private package registry
    Texts,
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
        // Nothing can be told to anybody when stderr is closed.
        let _ = writeln!(stderr, "error: {problem}");
    }
}

fn run(task: &Task) -> Result<Vec<String>> {
    let root = root()?;
    let mut problems = Vec::new();
    if matches!(task, Task::Check | Task::Layers) {
        let rules = layers::Rules::parse(&read(&root.join("docs/architecture.md"))?)?;
        problems.extend(rules.check(&graph::Graph::of(&root)?));
    }
    if matches!(task, Task::Check | Task::Texts) {
        problems.extend(texts::check(&root)?);
    }
    Ok(problems)
}

/// The folder of the workspace: this crate's parent.
fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here
        .parent()
        .context("xtask has no parent folder")?
        .to_owned())
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Runs a program in the folder of the workspace and returns its stdout.
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
