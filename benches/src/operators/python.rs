//! Our Python package, with the optimised extension that is built beside this program.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use tokio::process::Command;

use super::contestants::{beside, folder, install as install_packages};
use crate::servers;

/// The extension, as cargo names it and as Python does.
const BUILT: &str = "lib_kopf.so";
const IMPORTED: &str = "_kopf.abi3.so";

/// Installs what the package depends on, and joins its sources with the extension.
pub(crate) async fn install() -> Result<()> {
    install_packages(&folder("python-bench")?, "benches/requirements-python.txt").await?;
    let package = package()?;
    if package.exists() {
        std::fs::remove_dir_all(&package)?;
    }
    let target = package.join("kopf");
    std::fs::create_dir_all(&target)?;
    let sources = servers::root().join("python/kopf");
    for entry in std::fs::read_dir(&sources)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(IMPORTED) {
            symlink(entry.path(), target.join(entry.file_name()))?;
        }
    }
    let built = beside(BUILT)?;
    let advice = "build the extension: cargo build --release --package kopf-python";
    std::fs::copy(&built, target.join(IMPORTED)).context(advice)?;
    Ok(())
}

/// The command `kopf` of the package.
pub(crate) fn command() -> Result<Command> {
    let mut command = Command::new(folder("python-bench")?.join("bin/python"));
    command.args(["-m", "kopf"]).env("PYTHONPATH", package()?);
    Ok(command)
}

fn package() -> Result<PathBuf> {
    beside("python-package")
}
