//! A sandbox, and replicas of one operator on it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use kopf_sandbox::{Listen, Listening, Sandbox};
use kube::Client;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::proxy::Proxy;
use crate::load;
use crate::operators::implementations::sibling;
use crate::operators::objects;
use crate::usage::Usage;

pub(in crate::operators) const NAMESPACE: &str = "bench-replicas";

/// Number of shards of `--shards=auto`.
const SHARDS: usize = 12;

/// Interval of the checks, equal to the renewal interval of Leases.
const INTERVAL: Duration = Duration::from_secs(2);

/// Upper bound of the bytes that an idle replica receives for its Leases per interval.
const IDLE: u64 = 256 * 1024;

const LIMIT: Duration = Duration::from_secs(300);

/// The place where objects are filtered by shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::operators) enum Sharding {
    ByServer,
    ByReplicas,
}

impl fmt::Display for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByServer => "filtered by the server",
            Self::ByReplicas => "filtered by the replicas",
        })
    }
}

/// A sandbox in this process, behind TLS.
pub(in crate::operators) struct Cluster {
    sandbox: Sandbox,
    listening: Listening,
    client: Client,
}

impl Cluster {
    pub(in crate::operators) async fn start(sharding: Sharding) -> Result<Self> {
        let mut builder = Sandbox::builder();
        if sharding == Sharding::ByReplicas {
            builder = builder.without_shards();
        }
        let sandbox = builder.build()?;
        let listening = sandbox.listen(Listen::default()).await?;
        let client = Client::new(sandbox.service(), "default");
        objects::define(&client).await?;
        load::namespace(&client, NAMESPACE).await?;
        Ok(Self {
            sandbox,
            listening,
            client,
        })
    }

    pub(in crate::operators) fn client(&self) -> &Client {
        &self.client
    }

    pub(in crate::operators) async fn stop(self) {
        self.sandbox.shutdown().await;
    }

    /// Returns a kubeconfig of the sandbox.
    pub(in crate::operators) fn kubeconfig(&self) -> String {
        self.listening.kubeconfig()
    }

    /// Returns the number of shards of each replica that holds any.
    async fn held(&self) -> Result<Vec<usize>> {
        let path = format!(
            "/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases?labelSelector=kopf.dev/role%3Dshard"
        );
        let request = Request::get(path).body(Vec::new())?;
        let list: Value = serde_json::from_str(&self.client.request_text(request).await?)?;
        let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
        for lease in list["items"].as_array().into_iter().flatten() {
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            if !holder.is_empty() {
                *holders.entry(holder).or_default() += 1;
            }
        }
        Ok(holders.into_values().collect())
    }
}

/// One replica, behind a proxy that counts its bytes. It is killed when dropped.
pub(in crate::operators) struct Replica {
    child: Child,
    proxy: Proxy,
}

/// The counters of one replica at one point in time.
#[derive(Debug, Clone, Copy)]
pub(in crate::operators) struct Counters {
    pub(in crate::operators) cpu: Duration,
    /// Megabytes.
    pub(in crate::operators) memory: f64,
    /// Megabytes.
    pub(in crate::operators) received: f64,
}

/// Running replicas. They are killed when dropped.
pub(in crate::operators) struct Group {
    replicas: Vec<Replica>,
    _folder: TempDir,
}

impl Group {
    /// Starts replicas, and waits until they have divided the shards evenly. The handler takes
    /// `handler_wait` milliseconds.
    pub(in crate::operators) async fn start(
        cluster: &Cluster,
        count: usize,
        handler_wait: Option<u32>,
    ) -> Result<Self> {
        let folder = TempDir::new()?;
        let mut replicas = Vec::new();
        for number in 0..count {
            let mut command = Command::new(sibling("bench-operator")?);
            command.args(["run", "--standalone", "--namespace", NAMESPACE]);
            command.args(["--leader-elect-name=bench", "--shards=auto"]);
            command.args(["--leader-elect-namespace", NAMESPACE]);
            if let Some(wait) = handler_wait {
                command.env("BENCH_WAIT", wait.to_string());
            }
            let name = format!("replica-{number}");
            replicas.push(Replica::start(cluster, folder.path(), &name, command).await?);
        }
        let began = Instant::now();
        while cluster.held().await? != vec![SHARDS / count; count] {
            let is_late = began.elapsed() >= LIMIT;
            ensure!(
                !is_late,
                "the shards are not divided evenly after {LIMIT:?}"
            );
            sleep(INTERVAL).await;
        }
        Ok(Self {
            replicas,
            _folder: folder,
        })
    }

    /// Waits until all replicas receive only Leases.
    pub(in crate::operators) async fn settle(&self) -> Result<()> {
        let received = || self.replicas.iter().map(|one| one.proxy.received());
        let began = Instant::now();
        loop {
            let before: Vec<u64> = received().collect();
            sleep(INTERVAL).await;
            let mut growth = received().zip(before);
            if growth.all(|(after, before)| after - before < IDLE) {
                return Ok(());
            }
            let is_late = began.elapsed() >= LIMIT;
            ensure!(!is_late, "the replicas are still busy after {LIMIT:?}");
        }
    }

    pub(in crate::operators) fn counters(&self) -> Result<Vec<Counters>> {
        let counters = self.replicas.iter().map(Replica::counters);
        counters.collect()
    }

    pub(in crate::operators) async fn stop(mut self) -> Result<()> {
        for replica in &mut self.replicas {
            replica.child.kill().await?;
        }
        Ok(())
    }
}

impl Replica {
    /// Starts an operator with a kubeconfig of its own.
    pub(in crate::operators) async fn start(
        cluster: &Cluster,
        folder: &Path,
        name: &str,
        mut command: Command,
    ) -> Result<Self> {
        let server = cluster.listening.local_addr();
        let proxy = Proxy::start(server).await?;
        let kubeconfig = folder.join(format!("{name}.kubeconfig"));
        let (direct, proxied) = (format!(":{}", server.port()), format!(":{}", proxy.port));
        let text = cluster.listening.kubeconfig();
        std::fs::write(&kubeconfig, text.replace(&direct, &proxied))?;
        let log = std::fs::File::create(folder.join(format!("{name}.log")))?;
        let child = command
            .env("KUBECONFIG", &kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {:?}: is it built?", command.as_std()))?;
        Ok(Self { child, proxy })
    }

    pub(in crate::operators) fn usage(&self) -> Result<Usage> {
        let id = self.child.id().context("the operator has exited")?;
        Ok(Usage::of(id))
    }

    pub(in crate::operators) async fn stop(mut self) -> Result<()> {
        self.child.kill().await.context("cannot stop the operator")
    }

    #[allow(clippy::cast_precision_loss, reason = "a rounded figure")]
    pub(in crate::operators) fn counters(&self) -> Result<Counters> {
        let usage = self.usage()?;
        Ok(Counters {
            cpu: usage.cpu()?,
            memory: usage.resident_megabytes()?,
            received: self.proxy.received() as f64 / (1024.0 * 1024.0),
        })
    }
}
