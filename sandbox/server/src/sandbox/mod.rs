//! The public handle of a sandbox: building, listening, shutdown.

mod builder;
mod listening;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use kopf_sandbox_api::admission::InvalidServiceUrl;
use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::fault::{Faults, Subscription};
use kopf_sandbox_schema::rights::UserInfo;
use kopf_sandbox_simulation::{Answers, Scripts};
use kopf_sandbox_store::journal::DataError;
use tokio::task::JoinSet;

pub use self::builder::Builder;
pub use self::listening::{Listen, Listening};
use crate::service::Service;
use crate::view::Views;

/// An error of building a sandbox or listening.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A sandbox spawns tasks and must be built inside of a tokio runtime.
    #[error("a sandbox must be built inside of a tokio runtime (for example in #[tokio::main])")]
    NoRuntime,
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The certificates of the server could not be generated.
    #[error("cannot generate certificates")]
    Certificates(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The data folder cannot be used.
    #[error("cannot use the data folder {}", folder.display())]
    Data {
        /// The requested folder.
        folder: PathBuf,
        /// The reason, with the next step.
        source: DataError,
    },
    /// A Service is mapped to something else than a URL.
    #[error(transparent)]
    Service(#[from] InvalidServiceUrl),
    /// The kubeconfig could not be written.
    #[error("cannot write the kubeconfig")]
    Kubeconfig(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// An independent Kubernetes API in memory. It ends when it is dropped.
pub struct Sandbox {
    cluster: Arc<Cluster>,
    scripts: Scripts,
    _commands: Subscription,
    tasks: JoinSet<()>,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("objects", &self.cluster.store.total())
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Returns a builder with the default settings.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Returns the API as an in-process service.
    pub fn service(&self) -> Service {
        Service::new(Arc::clone(&self.cluster))
    }

    /// Returns the faults of this sandbox; none by default.
    pub fn faults(&self) -> &Faults {
        &self.cluster.faults
    }

    /// Returns the views of clients whose server lags; see [`view`](crate::view).
    pub fn views(&self) -> Views {
        Views::new(Arc::clone(&self.cluster))
    }

    /// Returns the answers of simulated containers; `None` if pods are not simulated.
    pub fn answers(&self) -> Option<&Answers> {
        self.cluster.workloads.as_ref()?.answers()
    }

    /// Returns the failures that this sandbox [simulates](Builder::simulate); none until scripts
    /// are added.
    pub fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    /// Adds a user with a bearer token to the running sandbox. A known token is reassigned.
    pub fn add_token<G: Into<String>>(
        &self,
        token: &str,
        user: impl Into<String>,
        groups: impl IntoIterator<Item = G>,
    ) {
        let user = UserInfo::new(user, groups);
        self.cluster.access.add_token(token, user);
    }

    /// Revokes a bearer token: requests with it get a 401. Open watches stay open, as with a real
    /// server.
    pub fn revoke_token(&self, token: &str) {
        self.cluster.access.remove_token(token);
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns all objects, each in the storage version of its kind: CRDs first, then namespaces,
    /// then the others. [`Manifests::restore`](crate::manifests::Manifests::restore) imports them.
    pub fn export(&self) -> Vec<serde_json::Value> {
        self.cluster.export()
    }

    /// Drops old versions: watches and lists that start from them get a 410.
    pub fn compact(&self) {
        self.cluster.faults.compact();
    }

    /// Serves the API on a TLS listener.
    pub async fn listen(&self, listen: Listen) -> Result<Listening, Error> {
        Listening::start(&self.cluster, listen).await
    }

    /// Ends the sandbox and all its watches.
    pub async fn shutdown(mut self) {
        self.cluster.stopping.cancel();
        self.tasks.shutdown().await;
        if !self.cluster.store.is_kept() {
            return;
        }
        let cluster = Arc::clone(&self.cluster);
        // A panic of the closure is already logged.
        let _ = tokio::task::spawn_blocking(move || cluster.store.close()).await;
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.cluster.stopping.cancel();
    }
}
