//! The benchmarked servers: a sandbox in this process, one in a separate process, and a real
//! control plane. All use the same client.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use kopf_sandbox::Sandbox;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};

use crate::usage::Usage;

/// Returns a sandbox in this process, and a client without a socket.
pub(crate) fn in_process() -> Result<(Sandbox, Client)> {
    let sandbox = Sandbox::builder().build()?;
    let client = Client::new(sandbox.service(), "default");
    Ok((sandbox, client))
}

/// `kopf sandbox` in a separate process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    folder: TempDir,
}

impl Process {
    /// Starts the command, and waits until it listens.
    pub(crate) async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// Starts the command with the objects of a folder, and waits until it listens.
    pub(crate) async fn start_with_data(data: &Path) -> Result<Self> {
        Self::start_with(&["--data".as_ref(), data.as_ref()]).await
    }

    async fn start_with(options: &[&OsStr]) -> Result<Self> {
        let folder = TempDir::new()?;
        // Cargo builds both programs into the same folder.
        let program = std::env::current_exe()?.with_file_name("kopf");
        let mut child = Command::new(&program)
            .arg("sandbox")
            .arg("--kubeconfig")
            .arg(folder.path().join("kubeconfig"))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}: is it built?", program.display()))?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        wait_for_line(stdout, |line| line.starts_with("Ctrl-C ends it")).await?;
        Ok(Self { child, folder })
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        client(&self.kubeconfig()).await
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let id = self.child.id().context("the sandbox has exited")?;
        Ok(Usage::of(id))
    }

    pub(crate) async fn stop(mut self) -> Result<()> {
        self.child.kill().await.context("cannot stop the sandbox")
    }
}

/// etcd and kube-apiserver, with fsync as in production.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    child: Child,
    kubeconfig: PathBuf,
}

impl ControlPlane {
    pub(crate) async fn start() -> Result<Self> {
        let mut child = Command::new(root().join("tests/control-plane/run.sh"))
            .arg("--fsync")
            .arg("--until-stdin-ends")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run tests/control-plane/run.sh")?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let lines = wait_for_line(stdout, |line| line == "ready").await?;
        let kubeconfig = lines
            .iter()
            .find_map(|line| line.strip_prefix("kubeconfig="));
        let kubeconfig = kubeconfig
            .context("the control plane has printed no kubeconfig")?
            .into();
        Ok(Self { child, kubeconfig })
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        client(&self.kubeconfig).await
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Closes stdin and waits, so that the script removes its folder.
    pub(crate) async fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.child
            .wait()
            .await
            .context("cannot stop the control plane")?;
        Ok(())
    }
}

/// Returns a client over TLS. Retries are disabled, as they would distort the measurement.
async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Reads lines until a matching one, and returns the lines before it.
async fn wait_for_line(
    stdout: impl AsyncRead + Unpin,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<String>> {
    let mut lines = BufReader::new(stdout).lines();
    let mut seen = Vec::new();
    while let Some(line) = lines.next_line().await? {
        if wanted(&line) {
            return Ok(seen);
        }
        seen.push(line);
    }
    bail!("the server exited before it was ready")
}

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
