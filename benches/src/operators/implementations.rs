//! The compared operators. Each is a separate process, so that its usage can be measured.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use tokio::process::{Child, Command};

use super::python;
use crate::report::print_status;
use crate::servers;
use crate::usage::Usage;

/// An operator that handles the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Implementation {
    /// An operator on the crate kopf
    Ours,
    /// A small controller on kube-rs
    Kube,
    /// The original from the Python registry, with uvloop
    Original,
    /// The same operator on our Python package, with uvloop
    Python,
    /// The same with a plain function instead of a coroutine function
    PythonSync,
    /// The operator on the crate kopf without metrics
    Unmeasured,
    /// The operator on the crate kopf over HTTP/2
    Http2,
    /// The operator on the crate kopf with the allocator mimalloc
    Mimalloc,
    /// Not an operator: only the patches, by 96 connections
    #[value(skip)]
    Raw,
}

impl Implementation {
    /// All operators that are compared by default.
    pub(crate) const ALL: [Self; 5] = [
        Self::Ours,
        Self::Kube,
        Self::Original,
        Self::Python,
        Self::PythonSync,
    ];

    /// Installs its dependencies once, before any measurement.
    pub(crate) async fn install(self) -> Result<()> {
        match self {
            Self::Original => install_original().await,
            Self::Python | Self::PythonSync => python::install().await,
            _ => Ok(()),
        }
    }

    /// Returns its name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Kube => "kube-rs",
            Self::Original => "the original",
            Self::Python => "ours in Python",
            Self::PythonSync => "ours in Python, sync",
            Self::Unmeasured => "ours without metrics",
            Self::Http2 => "ours over HTTP/2",
            Self::Mimalloc => "ours with mimalloc",
            Self::Raw => "raw client",
        }
    }

    /// Starts it for one namespace with this number of objects, with default logging.
    pub(crate) fn start(
        self,
        kubeconfig: &Path,
        namespace: &str,
        count: u32,
        log: std::fs::File,
    ) -> Result<Running> {
        let mut command = match self {
            Self::Ours | Self::Unmeasured | Self::Http2 | Self::Mimalloc => {
                let mut command = Command::new(sibling(match self {
                    Self::Mimalloc => "bench-mimalloc",
                    _ => "bench-operator",
                })?);
                match self {
                    Self::Unmeasured => drop(command.env("BENCH_METRICS", "off")),
                    Self::Http2 => drop(command.env("BENCH_HTTP2", "on")),
                    _ => {}
                }
                command.args(["run", "--standalone", "--namespace", namespace]);
                command
            }
            Self::Kube => {
                let mut command = Command::new(sibling("bench-kube")?);
                command.arg(namespace);
                command
            }
            Self::Original => {
                let mut command = Command::new(original()?);
                command.args(["run", "--standalone", "--namespace", namespace]);
                command.arg(servers::root().join("benches/implementations/original.py"));
                command
            }
            Self::Python | Self::PythonSync => {
                let file = match self {
                    Self::PythonSync => "benches/implementations/sync.py",
                    _ => "benches/implementations/original.py",
                };
                let mut command = python::command()?;
                command.args(["run", "--standalone", "--namespace", namespace]);
                command.arg(servers::root().join(file));
                command
            }
            Self::Raw => {
                let mut command = Command::new(sibling("bench-raw")?);
                command.args([namespace, &count.to_string()]);
                command
            }
        };
        let child = command
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", self.name()))?;
        Ok(Running { child })
    }
}

/// A running implementation. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
}

impl Running {
    pub(crate) fn usage(&self) -> Result<Usage> {
        let id = self.child.id().context("the implementation has exited")?;
        Ok(Usage::of(id))
    }

    pub(crate) async fn stop(mut self) -> Result<()> {
        self.child.kill().await.context("cannot stop it")
    }
}

/// Installs the original once, before any measurement.
pub(crate) async fn install_original() -> Result<()> {
    install(&folder("original")?, "benches/requirements.txt").await
}

/// Installs Python packages into a virtual environment once.
pub(crate) async fn install(folder: &Path, requirements: &str) -> Result<()> {
    // Written last: marks a complete installation.
    let complete = folder.join("complete");
    let requirements = servers::root().join(requirements);
    let wanted = std::fs::read_to_string(&requirements)?;
    if std::fs::read_to_string(&complete).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    print_status(format_args!(
        "Installing {} into {}…",
        requirements.display(),
        folder.display()
    ));
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    let advice = "install Python 3.11 or newer with its venv, or measure without it: --implementations ours,kube";
    run(Command::new("python3").args(["-m", "venv"]).arg(folder))
        .await
        .context(advice)?;
    run(Command::new(folder.join("bin/pip"))
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .arg("--requirement")
        .arg(&requirements))
    .await
    .context(advice)?;
    std::fs::write(&complete, wanted)?;
    Ok(())
}

async fn run(command: &mut Command) -> Result<()> {
    let status = command.status().await?;
    ensure!(status.success(), "{:?}: {status}", command.as_std());
    Ok(())
}

/// Returns the folder of a virtual environment, in the cache outside of the repository.
pub(crate) fn folder(name: &str) -> Result<PathBuf> {
    let variable = |name| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let cache = variable("KOPF_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("kopf")))
        .or_else(|| variable("HOME").map(|folder| folder.join(".cache/kopf")));
    let cache = cache.context("no folder to install into: set KOPF_CACHE")?;
    Ok(cache.join(name))
}

/// Returns the command of the original.
pub(crate) fn original() -> Result<PathBuf> {
    Ok(folder("original")?.join("bin/kopf"))
}

/// Returns another program of this package: Cargo builds all of them into the same folder.
pub(crate) fn sibling(name: &str) -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}
