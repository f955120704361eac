//! Our Python package, with the release build of its extension.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

use super::implementations::{folder, install as install_packages, sibling};
use crate::servers;

/// File names of the extension: of Cargo and of Python.
const BUILT: &str = "lib_kopf.so";
const IMPORTED: &str = "_kopf.abi3.so";

/// Installs the dependencies of the package, and copies its sources and the extension.
///
/// The modules are compiled, as pip does. Otherwise, every start would compile them.
pub(crate) async fn install() -> Result<()> {
    install_packages(&folder("python-bench")?, "benches/requirements-python.txt").await?;
    let package = package()?;
    if package.exists() {
        std::fs::remove_dir_all(&package)?;
    }
    let target = package.join("kopf");
    copy_modules(&servers::root().join("python/kopf"), &target)?;
    let built = sibling(BUILT)?;
    let advice = "build the extension: cargo build --release --package kopf-python";
    std::fs::copy(&built, target.join(IMPORTED)).context(advice)?;
    let compiled = Command::new(interpreter()?)
        .args(["-m", "compileall", "-q"])
        .arg(&target)
        .status()
        .await?;
    ensure!(compiled.success(), "cannot compile {}", target.display());
    Ok(())
}

/// Copies the modules of a package and of its subpackages.
fn copy_modules(source: &Path, target: &Path) -> Result<()> {
    std::fs::create_dir_all(target)?;
    for entry in std::fs::read_dir(source)? {
        let path = entry?.path();
        let Some(name) = path.file_name() else {
            continue;
        };
        if path.is_dir() && name != "__pycache__" {
            copy_modules(&path, &target.join(name))?;
        } else if path.extension().is_some_and(|extension| extension == "py") {
            std::fs::copy(&path, target.join(name))?;
        }
    }
    Ok(())
}

fn interpreter() -> Result<PathBuf> {
    Ok(folder("python-bench")?.join("bin/python"))
}

/// Returns the `kopf` command of the package.
pub(crate) fn command() -> Result<Command> {
    let mut command = Command::new(interpreter()?);
    command.args(["-m", "kopf"]).env("PYTHONPATH", package()?);
    Ok(command)
}

fn package() -> Result<PathBuf> {
    sibling("python-package")
}
