//! One run: a sandbox, an operator, a scenario, and at most one deviation.

mod client;
mod crew;
mod disturbance;
mod process;
mod processor;
mod recorder;
mod running;
mod steering;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kopf_sandbox::manifests::Manifests;
use kopf_sandbox::simulation::Simulation;
use kopf_sandbox::{Listen, Listening, Sandbox, Service};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::client::Client;
pub use self::client::Rejection;
use self::crew::{Crew, MOST_INSTANCES, TOKEN};
pub use self::process::ProcessLauncher;
use self::recorder::Recorder;
use self::running::Running;
use self::steering::Steering;
use crate::deviation::Deviation;
use crate::mask::{Mask, MaskedField, View};
use crate::record::{Record, Reference};
use crate::scenario::{Action, Scenario, Target};

/// The access of an instance to its API server.
#[derive(Debug, Clone)]
pub struct Connection {
    kubeconfig: String,
    service: Service,
    token: String,
}

impl Connection {
    /// Returns the kubeconfig; empty if the operator is in this process.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Returns the API server for an operator in this process. Its requests need the [token](Self::token).
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Returns the bearer token of the instance.
    pub fn token(&self) -> &str {
        &self.token
    }
}

/// An operator that can be started and killed: a process, or a task of this one.
pub trait Subject: Send + Sync {
    /// Starts an instance, by its number, as its own user of the API server.
    fn start(&self, instance: usize, connection: &Connection) -> io::Result<()>;

    /// Ends an instance immediately.
    fn kill(&self, instance: usize);

    /// Asks an instance to exit.
    fn terminate(&self, instance: usize);

    /// Stops an instance from doing anything, until it is thawed. Subjects that cannot do so do nothing.
    fn freeze(&self, _instance: usize) {}

    /// Lets a frozen instance continue.
    fn thaw(&self, _instance: usize) {}

    /// Returns for how long the instances have waited for a processor so far. Subjects without processes return
    /// zero.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the instances that have ended since the last call, with their statuses.
    fn exits(&self) -> Vec<(usize, String)>;

    /// Returns the end of the output of all instances.
    fn output(&self) -> String;
}

/// A source of subjects: one per run.
pub trait Launch: Send + Sync {
    /// Returns the subject of a run. Its files go to the folder.
    fn subject(&self, folder: &Path) -> io::Result<Box<dyn Subject>>;

    /// Returns the operator's description for reports.
    fn describe(&self) -> String;

    /// Returns `true` for operators in this process, which need no socket.
    fn is_in_process(&self) -> bool {
        false
    }
}

/// The operator and the sandbox of all runs of an exploration.
#[derive(Clone)]
pub struct World {
    /// The objects that exist before the operator is started, with CRDs.
    pub manifests: Manifests,
    /// The simulated workloads.
    pub simulation: Option<Simulation>,
    /// The operator.
    pub launcher: Arc<dyn Launch>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("operator", &self.launcher.describe())
            .finish_non_exhaustive()
    }
}

/// A run cannot be done at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The sandbox cannot be started.
    #[error("cannot start the sandbox")]
    Sandbox(#[from] kopf_sandbox::Error),
    /// The manifests cannot be loaded.
    #[error(transparent)]
    Manifests(#[from] kopf_sandbox::manifests::Error),
    /// A file cannot be written.
    #[error("cannot prepare a run")]
    Files(#[from] io::Error),
    /// The API server rejects an object of the scenario.
    #[error("{object}: {rejection}")]
    Rejected {
        /// The object.
        object: String,
        /// The response.
        rejection: Rejection,
    },
}

impl RunError {
    /// Returns the error with its causes in one line.
    pub fn describe(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(inner) = cause {
            text = format!("{text}: {inner}");
            cause = inner.source();
        }
        text
    }
}

/// The states with which those after the steps are compared.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Expectation {
    /// Nothing: this is a reference run.
    Nothing,
    /// The states of the reference.
    Reference(Arc<Reference>),
    /// The state after the second step is this one, and that after the third one is that after the
    /// first one.
    Reverted(Arc<Reference>, View),
}

impl Expectation {
    fn reference(&self) -> Option<&Arc<Reference>> {
        match self {
            Self::Nothing => None,
            Self::Reference(reference) | Self::Reverted(reference, _) => Some(reference),
        }
    }
}

/// Timing of a run.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// The time without changes after which the operator counts as settled.
    pub settle: Duration,
    /// Maximum time of one step.
    pub limit: Duration,
    /// Maximum time to exit after SIGTERM.
    pub grace: Duration,
}

/// Effects of findings that are confirmed: runs that show them again need not wait to the limit.
#[derive(Debug, Clone, Default)]
pub struct Known(Arc<Mutex<BTreeSet<String>>>);

impl Known {
    /// Adds the signature of a complaint.
    pub fn add(&self, signature: String) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(signature);
    }

    /// Returns `true` if the signature was added.
    pub fn contains(&self, signature: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains(signature)
    }
}

/// One run.
#[derive(Debug, Clone)]
pub struct Task<'a> {
    /// The common part.
    pub world: &'a World,
    /// The steps of the user.
    pub scenario: &'a Scenario,
    /// The deviation.
    pub deviation: Option<Deviation>,
    /// The expected states.
    pub expectation: Expectation,
    /// The timing.
    pub timing: Timing,
    /// Fields that are ignored in reference runs.
    pub ignored: &'a [MaskedField],
    /// Confirmed effects.
    pub known: Known,
    /// The number of processes of the operator.
    pub replicas: usize,
    /// Seed of names and uids; it also shifts resource versions.
    pub seed: u64,
}

/// Does a run. Files of the operator go to the folder.
pub async fn perform(task: &Task<'_>, folder: &Path) -> Result<Record, RunError> {
    let mask = match task.expectation.reference() {
        Some(reference) => reference.mask.clone(),
        None => Mask::new(task.ignored.iter().cloned()),
    };
    let recorder = Arc::new(Recorder::new(mask));
    let subject = task.world.launcher.subject(folder)?;
    let crew = Arc::new(Crew::new(
        subject,
        Arc::clone(&recorder),
        task.timing.grace,
        task.replicas,
    ));
    // Tasks of the sandbox may outlive a cancelled run; its processes must not.
    let _ends_with_the_run = Ending(Arc::clone(&crew));
    let (orders, inbox) = mpsc::channel(16);
    let steering = Arc::new(Steering::new(
        Arc::clone(&recorder),
        Arc::clone(&crew),
        task.deviation.clone(),
        orders,
        task.timing.limit,
    ));
    let sandbox = sandbox(task, &steering)?;
    let bootstrap: BTreeSet<_> = recorder.objects().into_keys().collect();
    task.world.manifests.load(&sandbox).await?;
    let client = Client::new(sandbox.service());
    prepare(&client, task).await?;
    if task.world.simulation.is_some() {
        ensure_storage_class(&client).await?;
    }
    // Before the listener publishes the certificate of its authority.
    let mut initial = recorder.objects();
    initial.retain(|key, _| !bootstrap.contains(key));
    let (connection, listening) = connect(task, &sandbox).await?;
    crew.connect(connection);
    recorder.begin();
    crew.refill();
    let mut running = Running::new(task, &recorder, &crew, &steering, inbox, client, &sandbox);
    let end = running.steps().await;
    let states = running.into_states();
    crew.end();
    let last = recorder.snapshot();
    let (journal, pauses) = recorder.finish();
    let output = crew.output();
    drop(listening);
    sandbox.shutdown().await;
    Ok(Record {
        journal,
        states,
        last,
        initial,
        pauses,
        end,
        is_reached: task.deviation.is_none() || steering.is_reached(),
        output,
    })
}

/// Returns the connection of all instances, with a place for the token. The listener serves for as long as it
/// exists.
async fn connect(
    task: &Task<'_>,
    sandbox: &Sandbox,
) -> Result<(Connection, Option<Listening>), RunError> {
    let listening = if task.world.launcher.is_in_process() {
        None
    } else {
        Some(sandbox.listen(Listen::default()).await?)
    };
    let kubeconfig = listening
        .as_ref()
        .map(|listening| listening.kubeconfig_with_token(TOKEN));
    let connection = Connection {
        kubeconfig: kubeconfig.unwrap_or_default(),
        service: sandbox.service(),
        token: String::new(),
    };
    Ok((connection, listening))
}

fn sandbox(task: &Task<'_>, steering: &Arc<Steering>) -> Result<Sandbox, RunError> {
    let tap: Arc<Steering> = Arc::clone(steering);
    let mut builder = Sandbox::builder().seed(task.seed).tap(tap);
    for instance in 1..=MOST_INSTANCES {
        let (token, user) = (crew::token(instance), crew::user(instance));
        builder = builder.token(token, user, ["system:masters"]);
    }
    if let Some(simulation) = &task.world.simulation {
        builder = builder.simulate(simulation.clone());
    }
    Ok(builder.build()?)
}

/// Creates the namespaces of the scenario, and shifts resource versions: a version that is stored in
/// an object would be equal in all reference runs.
async fn prepare(client: &Client, task: &Task<'_>) -> Result<(), RunError> {
    let rejected = |object: &str| {
        let object = object.to_owned();
        move |rejection| RunError::Rejected { object, rejection }
    };
    for step in &task.scenario.steps {
        if let Action::Apply(object) = &step.action
            && let Some(name) = object
                .pointer("/metadata/namespace")
                .and_then(Value::as_str)
        {
            let created = client.ensure_namespace(name).await;
            created.map_err(rejected(&format!("namespace/{name}")))?;
        }
    }
    let target = Target {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: Some("kube-system".to_owned()),
        name: "kopf-explore".to_owned(),
    };
    for number in 0..=(task.seed % 7) {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"number": number.to_string()},
            "metadata": {"name": target.name, "namespace": target.namespace},
        });
        let applied = client.apply(&object, false).await;
        applied.map_err(rejected("configmap/kopf-explore"))?;
    }
    let deleted = client.delete(&target).await;
    deleted.map_err(rejected("configmap/kopf-explore"))?;
    Ok(())
}

/// Creates the default StorageClass that clusters usually have, unless the manifests have one: without it, no
/// claim can grow.
async fn ensure_storage_class(client: &Client) -> Result<(), RunError> {
    let rejected = |rejection| RunError::Rejected {
        object: "storageclass/standard".to_owned(),
        rejection,
    };
    let path = "/apis/storage.k8s.io/v1/storageclasses";
    let classes = client.get(path).await.map_err(rejected)?;
    let items = classes.get("items").and_then(Value::as_array);
    if items.is_none_or(Vec::is_empty) {
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "kopf.dev/simulated",
            "metadata": {
                "name": "standard",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "allowVolumeExpansion": true,
        });
        client.create_at(path, &class).await.map_err(rejected)?;
    }
    Ok(())
}

/// Kills all processes when it is dropped.
struct Ending(Arc<Crew>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The knowledge of the API server about an object of a scenario.
#[derive(Debug, Clone)]
pub struct Surveyed {
    /// The schema of its kind.
    pub schema: Option<Value>,
}

/// Loads the manifests into a sandbox and tries to create an object there, without an operator.
pub async fn survey(world: &World, object: Option<&Value>) -> Result<Surveyed, RunError> {
    let mut builder = Sandbox::builder();
    if let Some(simulation) = &world.simulation {
        builder = builder.simulate(simulation.clone());
    }
    let sandbox = builder.build()?;
    world.manifests.load(&sandbox).await?;
    let client = Client::new(sandbox.service());
    let mut schema = None;
    if let Some(object) = object
        && let Some(target) = Target::of(object)
    {
        let rejected = |rejection| RunError::Rejected {
            object: target.to_string(),
            rejection,
        };
        if let Some(namespace) = &target.namespace {
            client.ensure_namespace(namespace).await.map_err(rejected)?;
        }
        client.apply(object, true).await.map_err(rejected)?;
        schema = client.schema(&target).await;
    }
    sandbox.shutdown().await;
    Ok(Surveyed { schema })
}
