//! Construction of a sandbox.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use kopf_sandbox_api::access::Access;
use kopf_sandbox_api::admission::{Caller, InvalidServiceUrl, ServiceUrl};
use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::cluster::controllers::Controller;
use kopf_sandbox_api::cluster::workloads::Workloads;
use kopf_sandbox_api::fault::{Command, Faults};
use kopf_sandbox_api::store::{Store, Window};
use kopf_sandbox_api::tap::{Tap, Tapped};
use kopf_sandbox_kinds::builtin::builtin;
use kopf_sandbox_schema::rights::UserInfo;
use kopf_sandbox_simulation::{Scripts, Simulation, Simulator};
use kopf_sandbox_store::clock::Clock;
use kopf_sandbox_store::ids::Ids;
use kopf_sandbox_store::journal::{Journal, Recovered};
use tokio::task::JoinSet;

use super::{Error, Sandbox};

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
    tap: Option<Arc<dyn Tap>>,
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
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            seed: None,
            epoch: None,
            window: Window::default(),
            tokens: Vec::new(),
            services: Vec::new(),
            rbac: false,
            shards: true,
            data: None,
            simulation: None,
            tap: None,
        }
    }

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

    /// Observes and steers all requests, watch events and changes; see [`tap`](crate::tap).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use kopf_sandbox::Sandbox;
    /// use kopf_sandbox::tap::{Commit, Tap};
    ///
    /// struct Printer;
    ///
    /// impl Tap for Printer {
    ///     fn on_commit(&self, commit: &Commit) {
    ///         println!("{}: {}", commit.revision, commit.object.name());
    ///     }
    /// }
    ///
    /// let builder = Sandbox::builder().tap(Arc::new(Printer));
    /// # let _ = builder;
    /// ```
    pub fn tap(mut self, tap: Arc<dyn Tap>) -> Self {
        self.tap = Some(tap);
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
        let (mut store, recovered) = open_store(self.data, self.window)?;
        let tapped = self.tap.map(Tapped::new);
        if let Some(tapped) = &tapped {
            store.observe(Arc::new(tapped.clone()));
        }
        let mut cluster = Cluster::new(
            store,
            clock,
            // After a restart, the same seed must not repeat uids.
            Ids::seeded(seed ^ recovered.revision.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            access,
            faults.clone(),
            Caller::new(services),
            builtin(),
        );
        cluster.rbac = self.rbac;
        cluster.tap = tapped;
        cluster.shards = self.shards;
        let scripts = Scripts::default();
        let simulator = |simulation| Arc::new(Simulator::new(simulation, scripts.clone()));
        let simulator = self.simulation.map(simulator);
        if let Some(simulator) = &simulator {
            let workloads: Arc<dyn Workloads> = Arc::<Simulator>::clone(simulator);
            cluster.workloads = Some(workloads);
        }
        let cluster = Arc::new(cluster);
        cluster.restore(&recovered);
        drop(recovered);
        cluster.bootstrap();
        if let Some(simulator) = &simulator {
            simulator.start(&cluster);
        }
        let weak = Arc::downgrade(&cluster);
        faults.set_revision(move || weak.upgrade().map_or(0, |cluster| cluster.store.revision()));
        let weak = Arc::downgrade(&cluster);
        let commands = faults.subscribe(move |command| {
            if let (Command::Compact, Some(cluster)) = (command, weak.upgrade()) {
                cluster.store.compact();
            }
        });
        let tasks = run(&cluster, simulator, &runtime);
        Ok(Sandbox {
            cluster,
            scripts,
            _commands: commands,
            tasks,
        })
    }
}

/// Starts the tasks of a sandbox.
fn run(
    cluster: &Arc<Cluster>,
    simulator: Option<Arc<Simulator>>,
    runtime: &tokio::runtime::Handle,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let pumped = Arc::clone(cluster);
    tasks.spawn_on(async move { pumped.store.pump().await }, runtime);
    for controller in Controller::ALL {
        tasks.spawn_on(Arc::clone(cluster).run_controller(controller), runtime);
    }
    if let Some(simulator) = simulator {
        tasks.spawn_on(simulator.run(Arc::clone(cluster)), runtime);
    }
    tasks
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
