//! Finds the shared library of Python, which the tests embed.
//!
//! The extension itself must not be linked with it: its symbols are those of the interpreter that
//! imports it. A library for tests alone cannot be named to Cargo, so the library gets a name of its
//! own in the folder of this script, and only test code refers to it.

use std::error::Error;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints the name of the shared library and its possible folders.
const PROGRAM: &str = "
import sys, sysconfig
if sys.version_info < (3, 11):
    sys.exit(1)
get = sysconfig.get_config_var
print(get('INSTSONAME') or '')
folder = get('LIBDIR') or ''
print(folder, folder + '/' + (get('MULTIARCH') or ''), sys.base_prefix + '/lib', sep='\\n')
";

/// The name that the tests link: see `src/interpreter.rs`.
const NAME: &str = "libkopf_test_python.so";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=KOPF_TEST_PYTHON");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // Cargo adds folders in its target folder to the search path of the tests that it runs.
    println!("cargo::rustc-link-search=native={}", out.display());
    if let Some(library) = library() {
        return link(&library, &out);
    }
    // Builds of wheels do not run the tests.
    if std::env::var("PROFILE")? != "release" {
        println!(
            "cargo::warning=the tests of kopf-python embed Python 3.11 or newer, and no interpreter in \
             PATH has its shared library: install it (on Debian, the package libpython3-dev), or set \
             KOPF_TEST_PYTHON to an interpreter that has it"
        );
    }
    Ok(())
}

fn link(library: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let name = library.file_name().ok_or("the library has no name")?;
    // The first name is for the linker, the second one for the loader.
    for link in [out.join(NAME), out.join(name)] {
        if link.is_symlink() {
            fs::remove_file(&link)?;
        }
        symlink(library, link)?;
    }
    Ok(())
}

/// Returns the shared library of the first interpreter that has one.
fn library() -> Option<PathBuf> {
    let given = std::env::var("KOPF_TEST_PYTHON").ok();
    let names = [
        "python3",
        "python3.14",
        "python3.13",
        "python3.12",
        "python3.11",
    ];
    let names = given.as_deref().map_or(names.to_vec(), |given| vec![given]);
    names.into_iter().find_map(library_of)
}

fn library_of(python: &str) -> Option<PathBuf> {
    let output = Command::new(python).args(["-c", PROGRAM]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut lines = text.lines();
    let name = lines.next().filter(|name| name.contains(".so"))?;
    let mut paths = lines.map(|folder| Path::new(folder).join(name));
    paths.find(|path| path.exists())
}
