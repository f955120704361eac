//! The public handle of a sandbox: building, listening, shutdown.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;

use crate::access::{Access, UserInfo};
use crate::admission::{Caller, InvalidServiceUrl, ServiceUrl};
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
use crate::simulation::{Answers, Scripts, Simulation, Simulator};
use crate::store::{Store, Window};

/// Time for connections to end when a listener is shut down.
const GRACE: Duration = Duration::from_secs(2);

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

/// A builder of sandboxes.
///
/// ```
/// use kopf_sandbox::Sandbox;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sandbox = Sandbox::builder()
///     .seed(42)
///     .rbac()
///     .token("secret", "alice", ["developers"])
///     .build()?;
/// # sandbox.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Builder {
    seed: Option<u64>,
    epoch: Option<Timestamp>,
    window: Window,
    tokens: Vec<(String, UserInfo)>,
    services: Vec<Result<ServiceUrl, InvalidServiceUrl>>,
    rbac: bool,
    shards: bool,
    data: Option<PathBuf>,
    simulation: Option<Simulation>,
}

impl fmt::Debug for Builder {
    /// Omits the tokens.
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
    /// Seeds uids, generated names and fault decisions. The same seed gives the same sequence.
    ///
    /// ```
    /// use kopf_sandbox::Sandbox;
    ///
    /// let builder = Sandbox::builder().seed(42);
    /// # let _ = builder;
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts the clock of the sandbox at this time (in seconds since 1970) instead of the system
    /// time.
    ///
    /// ```
    /// use kopf_sandbox::Sandbox;
    ///
    /// let builder = Sandbox::builder().starting_at(1_767_225_600);
    /// # let _ = builder;
    /// ```
    pub fn starting_at(mut self, unix_seconds: i64) -> Self {
        self.epoch = Timestamp::from_second(unix_seconds).ok();
        self
    }

    /// Sets how many changes of each kind are kept for watches and paged lists. The default is
    /// 20,000.
    ///
    /// ```
    /// use kopf_sandbox::Sandbox;
    ///
    /// let builder = Sandbox::builder().history(100);
    /// # let _ = builder;
    /// ```
    pub fn history(mut self, events: usize) -> Self {
        self.window.events = events.max(1);
        self
    }

    /// Adds a user with a bearer token.
    ///
    /// ```
    /// use kopf_sandbox::Sandbox;
    ///
    /// let builder = Sandbox::builder().token("secret", "alice", ["developers"]);
    /// # let _ = builder;
    /// ```
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

    /// Maps a Service in webhook configurations and CRDs to a real server, like
    /// [`Builder::service`]. A malformed URL is an error of [`Builder::build`].
    ///
    /// ```
    /// use kopf_sandbox::Sandbox;
    ///
    /// let builder = Sandbox::builder().service_url("default", "my-webhooks", "https://127.0.0.1:9443");
    /// # let _ = builder;
    /// ```
    pub fn service_url(mut self, namespace: &str, name: &str, url: &str) -> Self {
        self.services.push(ServiceUrl::new(namespace, name, url));
        self
    }

    /// Maps a Service in webhook configurations and CRDs to a real server. The Service need not exist.
    ///
    /// Other Services are resolved as by the real server: those of the type `ExternalName` to their name
    /// and the port of the reference. All others are unreachable, because there are no pods. In every
    /// case, the certificate of the server must be for `NAME.NAMESPACE.svc`.
    ///
    /// ```
    /// use kopf_sandbox::Sandbox;
    ///
    /// let service = "operators/my-webhooks=https://127.0.0.1:9443".parse()?;
    /// let builder = Sandbox::builder().service(service);
    /// # let _ = builder;
    /// # Ok::<(), kopf_sandbox::InvalidServiceUrl>(())
    /// ```
    pub fn service(mut self, service: ServiceUrl) -> Self {
        self.services.push(Ok(service));
        self
    }

    /// Enables RBAC: every request is checked against roles and bindings. By default every
    /// authenticated user has all rights.
    ///
    /// The default roles and bindings of a cluster exist. Members of `system:masters`, such as the
    /// administrator of the kubeconfig, have all rights.
    ///
    /// ```
    /// use kopf_sandbox::Sandbox;
    ///
    /// let builder = Sandbox::builder().rbac();
    /// # let _ = builder;
    /// ```
    pub fn rbac(mut self) -> Self {
        self.rbac = true;
        self
    }

    /// Ignores `shardSelector` in lists and watches, as servers without the feature `ShardedListAndWatch`
    /// do. By default, it is applied.
    ///
    /// ```
    /// use kopf_sandbox::Sandbox;
    ///
    /// let builder = Sandbox::builder().without_shards();
    /// # let _ = builder;
    /// ```
    pub fn without_shards(mut self) -> Self {
        self.shards = false;
        self
    }

    /// Keeps the objects in a folder, from which a later sandbox continues.
    ///
    /// The folder is created if it is missing. Responses are sent after their changes are durable,
    /// so that neither `kill -9` nor a power failure loses acknowledged changes. Resource versions
    /// continue; watches from before the restart get a 410, unless nothing has changed since.
    /// Tokens, faults and the certificate authority are not kept.
    ///
    /// Disk writes take real time: do not pause the clock in tests with a folder.
    ///
    /// ```
    /// use kopf_sandbox::Sandbox;
    ///
    /// let builder = Sandbox::builder().data("/var/lib/my-sandbox");
    /// # let _ = builder;
    /// ```
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data = Some(folder.into());
        self
    }

    /// Simulates controllers of workloads: pods become ready, Deployments get pods, claims are
    /// bound. Nothing is simulated by default.
    ///
    /// ```
    /// use kopf_sandbox::Sandbox;
    /// use kopf_sandbox::simulation::Simulation;
    ///
    /// let builder = Sandbox::builder().simulate(Simulation::all());
    /// # let _ = builder;
    /// ```
    pub fn simulate(mut self, simulation: Simulation) -> Self {
        self.simulation = Some(simulation);
        self
    }

    /// Starts the sandbox. Must be called inside of a tokio runtime. With a [data](Self::data)
    /// folder, blocks until that is read.
    ///
    /// ```
    /// use kopf_sandbox::Sandbox;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sandbox = Sandbox::builder().build()?;
    /// # sandbox.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn build(self) -> Result<Sandbox, Error> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let clock = match self.epoch {
            Some(epoch) => Clock::starting_at(epoch),
            None => Clock::system(),
        };
        let services = self.services.into_iter().collect::<Result<_, _>>()?;
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
            // After a restart, the same seed must not repeat uids.
            Ids::seeded(seed ^ recovered.revision.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            access,
            faults.clone(),
            Caller::new(services),
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

/// Returns the store of a new sandbox and the content of its folder.
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

/// Returns 64 bits that differ between processes and calls.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    RandomState::new().build_hasher().finish()
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
            .field("objects", &self.cluster.store.len())
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Returns a builder with the default settings.
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

    /// Returns the API as an in-process service.
    pub fn service(&self) -> Service {
        Service::new(Arc::clone(&self.cluster))
    }

    /// Returns the faults of this sandbox; none by default.
    pub fn faults(&self) -> &Faults {
        &self.cluster.faults
    }

    /// Returns the answers of simulated containers; `None` if pods are not simulated.
    pub fn answers(&self) -> Option<&Answers> {
        self.cluster.simulation.as_ref()?.answers()
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
        self.cluster.publish_authority(authority.pem());
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
        // A panic of the closure is already logged.
        let _ = tokio::task::spawn_blocking(move || cluster.store.close()).await;
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.cluster.stopping.cancel();
    }
}

/// The address and certificate names of a listener.
///
/// ```
/// let mut listen = kopf_sandbox::Listen::default();
/// listen.port = 6443;
/// listen.names.push("sandbox.example.com".to_owned());
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Listen {
    /// The address; loopback by default, so that the sandbox is not reachable from other machines.
    pub address: IpAddr,
    /// The port; 0, the default, selects a free one.
    pub port: u16,
    /// Additional names for the server's certificate, beside `localhost` and the address.
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

/// A listener of a sandbox. The port is closed when it is dropped.
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
    /// Returns the URL of the API for clients on this machine.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the bound address and port.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Returns the CA certificate of the server, in PEM.
    pub fn authority_pem(&self) -> &str {
        self.authority.pem()
    }

    /// Returns a kubeconfig of the administrator with a client certificate. It contains a private
    /// key.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::render(
            &self.url,
            self.authority.pem(),
            Credentials::Certificate(&self.admin),
        )
    }

    /// Returns a kubeconfig of a user with a bearer token (see [`Builder::token`]).
    pub fn kubeconfig_with_token(&self, token: &str) -> String {
        kubeconfig::render(&self.url, self.authority.pem(), Credentials::Token(token))
    }

    /// Writes [`kubeconfig`](Self::kubeconfig) to a file with the mode 0600. A file of another user
    /// is not overwritten.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), Error> {
        kubeconfig::write(path, &self.kubeconfig()).map_err(|error| Error::Kubeconfig(error.into()))
    }

    /// Restarts the server with the same data, port and certificates: connections break, watches
    /// end, and old versions are dropped.
    pub async fn restart(&self) -> Result<(), Error> {
        self.cluster.faults.kill_watches();
        self.listener.suspend(Duration::ZERO).await;
        self.cluster.store.compact();
        let address = self.listener.address();
        self.listener
            .resume()
            .await
            .map_err(|source| Error::Listen { address, source })
    }

    /// Closes the port and all connections.
    pub async fn shutdown(self) {
        self.cluster.faults.kill_watches();
        self.listener.shut_down(GRACE).await;
    }
}
