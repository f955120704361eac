//! Programs that the compiler rejects, with its messages.
//!
//! The compiler is called with the library that this test is linked with, so that nothing else is
//! built again. Parts of the messages that name other code than the program are not compared.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

type Failure = Box<dyn std::error::Error>;

/// Compiles all programs of a folder. Returns the differences from the expected messages, which are
/// in the files `.stderr`; with `UI=overwrite`, these are written instead.
pub(crate) fn compile(folder: &Path) -> Result<Vec<String>, Failure> {
    let executable = std::env::current_exe()?;
    let libraries = executable.parent().ok_or("the test has no folder")?;
    let kopf = newest_library(libraries)?;
    let output = tempfile::tempdir()?;
    let is_updated = std::env::var_os("UI").is_some_and(|mode| mode == "overwrite");
    let mut differences = Vec::new();
    for program in programs(folder)? {
        let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
        compiler
            .args(["--edition=2024", "--emit=metadata", "--color=never"])
            .arg("--out-dir")
            .arg(output.path())
            .arg("--extern")
            .arg(format!("kopf={}", kopf.display()))
            .arg("-L")
            .arg(format!("dependency={}", libraries.display()))
            .arg(&program);
        let compiled = compiler.output()?;
        let messages = essential(&String::from_utf8_lossy(&compiled.stderr));
        let expected = program.with_extension("stderr");
        if is_updated {
            fs::write(&expected, &messages)?;
        }
        let expected = fs::read_to_string(&expected).unwrap_or_default();
        if compiled.status.success() {
            differences.push(format!("{} compiles", program.display()));
        } else if messages != expected {
            differences.push(format!("{}:\n{messages}", program.display()));
        }
    }
    Ok(differences)
}

fn programs(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut programs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("rs")) {
            programs.push(path);
        }
    }
    programs.sort();
    Ok(programs)
}

/// Returns the library that was built last. Builds with other features leave others.
fn newest_library(folder: &Path) -> Result<PathBuf, Failure> {
    let mut newest: Option<(SystemTime, PathBuf)> = None;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("libkopf-") && name.ends_with(".rlib") {
            let built = (entry.metadata()?.modified()?, entry.path());
            newest = newest.max(Some(built));
        }
    }
    let (_, path) = newest.ok_or("there is no library of kopf")?;
    Ok(path)
}

/// Removes what depends on other code: places in the framework, lists of types, summaries.
fn essential(messages: &str) -> String {
    let mut kept = String::new();
    let mut is_skipped = false;
    for line in messages.lines() {
        is_skipped = starts_skipped(line) || (is_skipped && continues(line));
        if !is_skipped && !is_about_others(line) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    let mut kept = kept.trim_end().to_owned();
    kept.push('\n');
    kept
}

fn starts_skipped(line: &str) -> bool {
    let text = line.trim_start();
    text.starts_with("note: required") || text.starts_with("= help: the following other")
}

/// Returns `true` for the lines of a snippet and of an indented list.
fn continues(line: &str) -> bool {
    let text = line.trim_start();
    let is_snippet = text.starts_with(|first: char| "|-:.".contains(first) || first.is_numeric());
    is_snippet || line.starts_with("           ")
}

fn is_about_others(line: &str) -> bool {
    let text = line.trim_start();
    let is_place = text.starts_with("--> crates/") || text.starts_with("::: crates/");
    let is_count = text.starts_with("and ") && text.ends_with(" others");
    let is_summary = [
        "error: aborting due to",
        "For more information",
        "Some errors have",
    ]
    .iter()
    .any(|summary| text.starts_with(summary));
    // The name of the file is different in each run.
    let is_file = text.contains("the full name for the type has been written")
        || text.contains("consider using `--verbose`");
    is_place || is_count || is_summary || is_file
}
