//! A sandbox as its owner sees it: built, listened on, shut down.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;

use crate::access::{Access, UserInfo};
use crate::admission::Caller;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::cluster::controllers::Controller;
use crate::fault::{Command, Faults, Subscription};
use crate::ids::Ids;
use crate::journal::{DataError, Journal, Recovered};
use crate::kinds;
use crate::server::certificates::{Authority, Identity};
use crate::server::kubeconfig::{self, Credentials};
use crate::server::listener::{Listener, Settings};
use crate::service::{Endpoint, Service};
use crate::simulation::{Scripts, Simulation, Simulator};
use crate::store::{Store, Window};

/// How long connections are given to end when a listener is shut down.
const GRACE: Duration = Duration::from_secs(2);

/// Why a sandbox could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A sandbox has tasks of its own and must be built inside of a tokio runtime.
    #[error("a sandbox must be built inside of a tokio runtime (for example in #[tokio::main])")]
    NoRuntime,
    /// The address can't be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The certificates of the server could not be made.
    #[error("cannot make certificates")]
    Certificates(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The data folder can't be used.
    #[error("cannot use the data folder {}", folder.display())]
    Data {
        /// The folder that was asked for.
        folder: PathBuf,
        /// Why not, and the way out.
        source: DataError,
    },
    /// The kubeconfig could not be written.
    #[error("cannot write the kubeconfig")]
    Kubeconfig(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What a new sandbox is like.
#[derive(Clone)]
#[must_use]
pub struct Builder {
    seed: Option<u64>,
    epoch: Option<Timestamp>,
    window: Window,
    tokens: Vec<(String, UserInfo)>,
    services: Vec<((String, String), String)>,
    rbac: bool,
    shards: bool,
    data: Option<PathBuf>,
    simulation: Option<Simulation>,
}

impl fmt::Debug for Builder {
    /// Without the tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users: Vec<&str> = self
            .tokens
            .iter()
            .map(|(_, user)| &*user.username)
            .collect();
        f.debug_struct("Builder")
            .field("seed", &self.seed)
            .field("epoch", &self.epoch)
            .field("window", &self.window)
            .field("users", &users)
            .field("services", &self.services)
            .field("rbac", &self.rbac)
            .field("shards", &self.shards)
            .field("data", &self.data)
            .field("simulation", &self.simulation)
            .finish()
    }
}

impl Builder {
    /// Makes uids, generated names and fault decisions repeatable: the same seed gives the same ones.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts the clock of the sandbox at this time (in seconds since 1970) instead of the system's.
    pub fn starting_at(mut self, unix_seconds: i64) -> Self {
        self.epoch = Timestamp::from_second(unix_seconds).ok();
        self
    }

    /// How many changes of each kind are remembered for watches and paged lists. The default is 20,000.
    pub fn history(mut self, events: usize) -> Self {
        self.window.events = events.max(1);
        self
    }

    /// Adds a user who is known by a bearer token.
    pub fn token<G: Into<String>>(
        mut self,
        token: impl Into<String>,
        user: impl Into<String>,
        groups: impl IntoIterator<Item = G>,
    ) -> Self {
        self.tokens
            .push((token.into(), UserInfo::new(user, groups)));
        self
    }

    /// Says where a `Service` that webhook configurations refer to is really listening: an `https` URL
    /// without a path. Without it, such webhooks are unreachable, because nothing here runs pods.
    pub fn service_url(
        mut self,
        namespace: impl Into<String>,
        name: impl Into<String>,
        url: impl Into<String>,
    ) -> Self {
        self.services
            .push(((namespace.into(), name.into()), url.into()));
        self
    }

    /// Checks every request against roles and bindings (RBAC). By default every known user may do
    /// everything.
    ///
    /// The roles and bindings of a new cluster exist, and members of `system:masters`, such as the
    /// administrator of the kubeconfig, may do everything.
    pub fn rbac(mut self) -> Self {
        self.rbac = true;
        self
    }

    /// Ignores `shardSelector` in lists and watches, as servers without the feature `ShardedListAndWatch`
    /// do. By default, it is applied.
    pub fn without_shards(mut self) -> Self {
        self.shards = false;
        self
    }

    /// Keeps the objects in a folder: they are there again when a sandbox is built on it later.
    ///
    /// A new folder is made. A change is answered when it is on disk, so that not even `kill -9` or a power
    /// failure loses what was answered. Resource versions continue; watches from before the restart get a
    /// 410, unless nothing has changed since. Tokens, faults and the certificate authority are not kept.
    ///
    /// The disk does not know of paused time: use the system's clock in tests with a folder.
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data = Some(folder.into());
        self
    }

    /// Simulates controllers of workloads: pods become ready, Deployments get pods, claims are bound.
    /// Nothing is simulated by default.
    pub fn simulate(mut self, simulation: Simulation) -> Self {
        self.simulation = Some(simulation);
        self
    }

    /// Starts the sandbox. It must be called inside of a tokio runtime. With a [data](Self::data) folder, it
    /// blocks until that is read.
    pub fn build(self) -> Result<Sandbox, Error> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let clock = match self.epoch {
            Some(epoch) => Clock::starting_at(epoch),
            None => Clock::system(),
        };
        let seed = self.seed.unwrap_or_else(random_seed);
        let access = Access::default();
        for (token, user) in self.tokens {
            access.add_token(&token, user);
        }
        let faults = Faults::new(seed);
        let (store, recovered) = open_store(self.data, self.window)?;
        let mut cluster = Cluster::new(
            store,
            clock,
            // After a restart, the same seed must not give the same uids once more.
            Ids::seeded(seed ^ recovered.revision.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            access,
            faults.clone(),
            Caller::new(self.services),
            kinds::builtin(),
        );
        cluster.rbac = self.rbac;
        cluster.shards = self.shards;
        let scripts = Scripts::default();
        let simulator = |simulation| Simulator::new(simulation, scripts.clone());
        cluster.simulation = self.simulation.map(simulator);
        let cluster = Arc::new(cluster);
        cluster.restore(&recovered);
        drop(recovered);
        cluster.bootstrap();
        cluster.start_simulation();
        let weak = Arc::downgrade(&cluster);
        let commands = faults.subscribe(move |command| {
            if let (Command::Compact, Some(cluster)) = (command, weak.upgrade()) {
                cluster.store.compact();
            }
        });
        let mut tasks = JoinSet::new();
        let pumped = Arc::clone(&cluster);
        tasks.spawn_on(async move { pumped.store.pump().await }, &runtime);
        for controller in Controller::ALL {
            tasks.spawn_on(Arc::clone(&cluster).run_controller(controller), &runtime);
        }
        if cluster.simulation.is_some() {
            tasks.spawn_on(Arc::clone(&cluster).run_simulation(), &runtime);
        }
        Ok(Sandbox {
            cluster,
            scripts,
            _commands: commands,
            tasks,
        })
    }
}

/// Returns the store of a new sandbox and what its folder has kept.
fn open_store(data: Option<PathBuf>, window: Window) -> Result<(Store, Recovered), Error> {
    let Some(folder) = data else {
        return Ok((Store::new(window), Recovered::default()));
    };
    match Journal::open(&folder) {
        Ok((journal, recovered)) => {
            let store = Store::journaled(window, journal, recovered.revision);
            Ok((store, recovered))
        }
        Err(source) => Err(Error::Data { folder, source }),
    }
}

/// 64 bits that differ from process to process and from call to call.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    RandomState::new().build_hasher().finish()
}

/// A Kubernetes API of its own, in memory. It ends when it is dropped.
pub struct Sandbox {
    cluster: Arc<Cluster>,
    scripts: Scripts,
    _commands: Subscription,
    tasks: JoinSet<()>,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("objects", &self.cluster.store.len())
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// A sandbox to be configured.
    pub fn builder() -> Builder {
        Builder {
            seed: None,
            epoch: None,
            window: Window::default(),
            tokens: Vec::new(),
            services: Vec::new(),
            rbac: false,
            shards: true,
            data: None,
            simulation: None,
        }
    }

    /// The API in process.
    pub fn service(&self) -> Service {
        Service::new(Arc::clone(&self.cluster))
    }

    /// The faults that this sandbox injects: none until told otherwise.
    pub fn faults(&self) -> &Faults {
        &self.cluster.faults
    }

    /// The failures that this sandbox [simulates](Builder::simulate): none until scripts are added.
    pub fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    /// Adds a user who is known by a bearer token, while it runs; a token that is known already
    /// changes its user.
    pub fn add_token<G: Into<String>>(
        &self,
        token: &str,
        user: impl Into<String>,
        groups: impl IntoIterator<Item = G>,
    ) {
        let user = UserInfo::new(user, groups);
        self.cluster.access.add_token(token, user);
    }

    /// Does not know a bearer token any more: requests with it get a 401. Watches that are open stay
    /// open, as with a real server.
    pub fn revoke_token(&self, token: &str) {
        self.cluster.access.remove_token(token);
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns all objects, each in the storage version of its kind: CRDs first, then namespaces, then the
    /// others. [`Manifests::restore`](crate::manifests::Manifests::restore) takes them over.
    pub fn export(&self) -> Vec<serde_json::Value> {
        self.cluster.export()
    }

    /// Forgets old versions: watches and lists that start from them get a 410.
    pub fn compact(&self) {
        self.cluster.faults.compact();
    }

    /// Puts the API behind a TLS listener.
    pub async fn listen(&self, listen: Listen) -> Result<Listening, Error> {
        let address = SocketAddr::new(listen.address, listen.port);
        let authority = self.authority()?;
        let tls = authority
            .server_config(&[listen.address], &listen.names)
            .map_err(|error| Error::Certificates(error.into()))?;
        let admin = authority
            .admin()
            .map_err(|error| Error::Certificates(error.into()))?;
        let endpoint = Endpoint::new(Arc::clone(&self.cluster));
        let listener = Listener::bind(address, tls, endpoint, Settings::default())
            .await
            .map_err(|source| Error::Listen { address, source })?;
        let connections = listener.connections().clone();
        let commands = self.cluster.faults.subscribe(move |command| match command {
            Command::ResetConnections => connections.reset_all(),
            Command::FreezeConnections(frozen) => connections.freeze(frozen),
            Command::Compact => {}
        });
        let url = listener.url();
        Ok(Listening {
            cluster: Arc::clone(&self.cluster),
            _commands: commands,
            listener,
            url,
            authority,
            admin,
        })
    }

    fn authority(&self) -> Result<Arc<Authority>, Error> {
        self.cluster
            .authority()
            .map_err(|error| Error::Certificates(error.into()))
    }

    /// Ends the sandbox and all its watches.
    pub async fn shutdown(mut self) {
        self.cluster.stopping.cancel();
        self.tasks.shutdown().await;
        if !self.cluster.store.is_kept() {
            return;
        }
        let cluster = Arc::clone(&self.cluster);
        // A panic in there would have been logged; there is nothing left to do about it.
        let _ = tokio::task::spawn_blocking(move || cluster.store.close()).await;
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.cluster.stopping.cancel();
    }
}

/// Where to listen.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The address; the loopback one by default, so that nobody else can reach the sandbox.
    pub address: IpAddr,
    /// The port; 0, the default, stands for any that is free.
    pub port: u16,
    /// More names for the server's certificate, beside `localhost` and the address.
    pub names: Vec<String>,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            names: Vec::new(),
        }
    }
}

/// A sandbox that can be reached from outside of the process. The port is closed when it is dropped.
#[derive(Debug)]
pub struct Listening {
    cluster: Arc<Cluster>,
    _commands: Subscription,
    listener: Listener,
    url: String,
    authority: Arc<Authority>,
    admin: Identity,
}

impl Listening {
    /// The address of the API for clients on this machine.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address and the real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The certificate of the authority that clients must trust.
    pub fn authority_pem(&self) -> &str {
        self.authority.pem()
    }

    /// A kubeconfig for the administrator, by client certificate. It holds a private key.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::render(
            &self.url,
            self.authority.pem(),
            Credentials::Certificate(&self.admin),
        )
    }

    /// A kubeconfig for a user with a bearer token (see [`Builder::token`]).
    pub fn kubeconfig_with_token(&self, token: &str) -> String {
        kubeconfig::render(&self.url, self.authority.pem(), Credentials::Token(token))
    }

    /// Writes [`kubeconfig`](Self::kubeconfig) to a file that only its owner can read. A file that belongs
    /// to somebody else is left alone.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), Error> {
        kubeconfig::write(path, &self.kubeconfig()).map_err(|error| Error::Kubeconfig(error.into()))
    }

    /// Goes down and comes back with the same data, port and certificates: connections break, watches end,
    /// and what watches could have started from is forgotten.
    pub async fn restart(&self) -> Result<(), Error> {
        self.cluster.faults.kill_watches();
        self.listener.go_down(Duration::ZERO).await;
        self.cluster.store.compact();
        let address = self.listener.address();
        self.listener
            .come_back()
            .await
            .map_err(|source| Error::Listen { address, source })
    }

    /// Closes the port and all connections.
    pub async fn shutdown(self) {
        self.cluster.faults.kill_watches();
        self.listener.shut_down(GRACE).await;
    }
}
