//! The servers that are measured: a sandbox in process, one in a process of its own, and a real control
//! plane. All are talked to by the same client.

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

/// A sandbox in this process, and a client without a socket.
pub(crate) fn in_process() -> Result<(Sandbox, Client)> {
    let sandbox = Sandbox::builder().build()?;
    let client = Client::new(sandbox.service(), "default");
    Ok((sandbox, client))
}

/// `kopf sandbox` in a process of its own.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    folder: TempDir,
}

impl Process {
    /// Starts the release build of the command, and waits until it says that it listens.
    pub(crate) async fn start() -> Result<Self> {
        let folder = TempDir::new()?;
        // Built together with this program, and so beside it.
        let program = std::env::current_exe()?.with_file_name("kopf");
        let mut child = Command::new(&program)
            .arg("sandbox")
            .arg("--kubeconfig")
            .arg(folder.path().join("kubeconfig"))
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
        let id = self.child.id().context("the sandbox has ended")?;
        Ok(Usage::of(id))
    }

    pub(crate) async fn stop(mut self) -> Result<()> {
        self.child
            .kill()
            .await
            .context("the sandbox cannot be stopped")
    }
}

/// etcd and kube-apiserver, with the disk as it is in production.
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
            .context("the control plane names no kubeconfig")?
            .into();
        Ok(Self { child, kubeconfig })
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        client(&self.kubeconfig).await
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Ends it the polite way, so that it removes its folder.
    pub(crate) async fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.child
            .wait()
            .await
            .context("the control plane cannot be stopped")?;
        Ok(())
    }
}

/// A client by a kubeconfig, over TLS. Retries would hide what is measured.
async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Reads lines until the wanted one; returns all of them.
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
    bail!("the server ended before it was ready")
}

/// The folder of the whole tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
