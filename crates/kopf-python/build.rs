//! Finds the shared library of Python, which the tests embed.
//!
//! The extension itself must not be linked with it: its symbols are those of the interpreter that
//! imports it. A library for tests alone cannot be named to Cargo, so the library gets a name of its
//! own in the folder of this script, and only test code refers to it.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints the path of the shared library. `make test` runs it as well.
const PROGRAM: &str = include_str!("library.py");

/// The name that the tests link: see `src/interpreter.rs`.
const NAME: &str = "libkopf_test_python.so";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=library.py");
    println!("cargo::rerun-if-env-changed=KOPF_TEST_PYTHON");
    // Builds of wheels do not run the tests.
    if std::env::var("CARGO_CFG_TARGET_OS")? != "linux" || std::env::var("PROFILE")? == "release" {
        return Ok(());
    }
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // Cargo adds folders in its target folder to the search path of the tests that it runs.
    println!("cargo::rustc-link-search=native={}", out.display());
    if let Some(library) = library() {
        return copy(&library, &out);
    }
    println!(
        "cargo::warning=the tests of kopf-python cannot be linked: they embed Python 3.11 or newer, \
         and python3 has no shared library. Install it (on Debian, the package libpython3-dev), or \
         set KOPF_TEST_PYTHON to an interpreter that has it"
    );
    Ok(())
}

fn copy(library: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let name = library.file_name().ok_or("the library has no name")?;
    // The first name is for the linker, the second one for the loader.
    for copy in [out.join(NAME), out.join(name)] {
        fs::copy(library, copy)?;
    }
    Ok(())
}

fn library() -> Option<PathBuf> {
    let python = std::env::var("KOPF_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python).args(["-c", PROGRAM]).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    output
        .status
        .success()
        .then(|| PathBuf::from(path.trim_end()))
}
