//! The state of a simulation: jobs triggered by writes, timers, and the state of kubelets.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::answers::Answers;
use super::behaviour::{Behaviour, Scripts};
use super::client::{Client, controller};
use super::timers::{Item, Timers};
use super::{Resource, Simulated, Simulation, namespaces, pods};
use crate::cluster::controllers::Job;
use crate::cluster::{Cluster, collection};
use crate::kinds::Kind;
use crate::object::meta;
use crate::status::Result;
use crate::store::Key;
use crate::sync::Mutex;

/// Upper bound for delays, 30 years; adding it to an instant cannot overflow.
const MAX_DELAY: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The simulation of one sandbox.
#[derive(Debug)]
pub(crate) struct Simulator {
    pub(super) settings: Simulation,
    pub(super) timers: Timers,
    pub(super) scripts: Scripts,
    answers: Answers,
    tracks: Mutex<HashMap<String, Track>>,
    /// Annotated behaviours of workloads by their uids.
    annotated: Mutex<HashMap<String, Behaviour>>,
    /// The number of addresses and nodes assigned so far.
    counter: Mutex<u32>,
}

/// The state of a pod in a kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Track {
    pub(super) behaviour: Option<Behaviour>,
    /// The start of the behaviour.
    pub(super) since: Instant,
    /// Restarts of containers before that.
    pub(super) restarts: i64,
}

impl Simulator {
    pub(crate) fn new(mut settings: Simulation, scripts: Scripts) -> Self {
        let answers = Answers::new(std::mem::take(&mut settings.answers));
        Self {
            settings,
            timers: Timers::default(),
            scripts,
            answers,
            tracks: Mutex::default(),
            annotated: Mutex::default(),
            counter: Mutex::default(),
        }
    }

    pub(super) fn simulates(&self, kind: Simulated) -> bool {
        self.settings.kinds.contains(&kind)
    }

    /// Returns the answers of containers, if pods are simulated.
    pub(crate) fn answers(&self) -> Option<&Answers> {
        self.simulates(Simulated::Pods).then_some(&self.answers)
    }

    /// Returns the next number for addresses and for the choice of nodes.
    pub(super) fn next_number(&self) -> u32 {
        let mut counter = self.counter.lock();
        *counter = counter.wrapping_add(1);
        *counter
    }

    /// Returns the state of a pod, after its behaviour was updated.
    pub(super) fn track(&self, pod: &Value, behaviour: Option<Behaviour>) -> Track {
        let mut tracks = self.tracks.lock();
        let known = tracks.get(meta::uid(pod)).copied();
        if let Some(known) = known.filter(|known| known.behaviour == behaviour) {
            return known;
        }
        let crashed = known.is_some_and(|known| known.behaviour.is_some_and(Behaviour::exits));
        let track = Track {
            behaviour,
            since: Instant::now(),
            restarts: pods::restarts(pod) + i64::from(crashed && behaviour.is_none()),
        };
        tracks.insert(meta::uid(pod).to_owned(), track);
        track
    }

    /// Records the annotated behaviour of a workload. Returns `true` if it differs from the
    /// recorded one.
    fn record(&self, workload: &Value) -> bool {
        let uid = meta::uid(workload);
        let mut annotated = self.annotated.lock();
        let behaviour = Behaviour::annotated(workload);
        let before = match behaviour {
            Some(behaviour) => annotated.insert(uid.to_owned(), behaviour),
            None => annotated.remove(uid),
        };
        before != behaviour
    }

    /// Removes the state of an object.
    pub(crate) fn forget(&self, uid: &str) {
        let mut tracks = self.tracks.lock();
        tracks.remove(uid);
        drop(tracks);
        self.annotated.lock().remove(uid);
    }

    /// Reconciles an object after a delay, which replaces an earlier one.
    pub(super) fn wake(&self, kind: Simulated, key: &Key, delay: Duration) {
        let item = Item {
            kind,
            key: key.clone(),
        };
        self.timers.set(item, Instant::now() + delay.min(MAX_DELAY));
    }

    /// Returns the job of the namespace of an object, if namespaces are simulated.
    fn namespace_of(&self, key: &Key) -> Option<Job> {
        let kind = Simulated::Namespaces;
        let key = Key::new(None, key.namespace()?);
        self.simulates(kind).then_some(Job::Simulate { kind, key })
    }

    /// Returns the simulated kind of a resource.
    fn kind_of(&self, group: &str, plural: &str) -> Option<Simulated> {
        let mut kinds = self.settings.kinds.iter().copied();
        kinds.find(|kind| {
            let resource = kind.resource();
            resource.group == group && resource.plural == plural
        })
    }
}

impl Cluster {
    /// Creates nodes, and reconciles all existing objects.
    pub(crate) fn start_simulation(&self) {
        let Some(simulator) = &self.simulation else {
            return;
        };
        if simulator.simulates(Simulated::Pods) || simulator.simulates(Simulated::DaemonSets) {
            for number in 1..=simulator.settings.nodes {
                self.establish("", "nodes", pods::node(number, &self.clock.seconds()));
            }
        }
        for kind in &simulator.settings.kinds {
            self.reconcile_all(*kind);
        }
    }

    /// Returns a job for each object of a kind.
    fn reconciliations(&self, kind: Simulated) -> impl Iterator<Item = Job> + use<> {
        let objects = Client::new(self, "").stored(kind.resource(), None);
        objects.into_iter().map(move |stored| Job::Simulate {
            kind,
            key: stored.key.clone(),
        })
    }

    /// Reconciles all namespaces, after the certificate authority was published.
    pub(crate) fn reconcile_namespaces(&self) {
        if let Some(simulator) = &self.simulation
            && simulator.simulates(Simulated::Namespaces)
        {
            self.reconcile_all(Simulated::Namespaces);
        }
    }

    fn reconcile_all(&self, kind: Simulated) {
        for job in self.reconciliations(kind) {
            self.jobs.push(job);
        }
    }

    /// Returns jobs for the simulated objects that a write affects. Called before the write; the
    /// jobs are queued after it.
    pub(crate) fn simulated_consequences(
        &self,
        kind: &Kind,
        key: &Key,
        object: &Value,
    ) -> Vec<Job> {
        let Some(simulator) = &self.simulation else {
            return Vec::new();
        };
        let mut jobs = Vec::new();
        if let Some(kind) = simulator.kind_of(&kind.group, &kind.plural) {
            let key = key.clone();
            jobs.push(Job::Simulate { kind, key });
        }
        if let Some(owner) = controller(object)
            && let (Some(api_version), Some(owner_kind), Some(name)) = (
                owner["apiVersion"].as_str(),
                owner["kind"].as_str(),
                owner["name"].as_str(),
            )
        {
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            let plural = format!("{}s", owner_kind.to_lowercase());
            if let Some(kind) = simulator.kind_of(group, &plural) {
                let key = Key::new(key.namespace(), name);
                jobs.push(Job::Simulate { kind, key });
            }
        }
        match (&*kind.group, &*kind.plural) {
            ("", "pods") if simulator.simulates(Simulated::Services) => {
                for stored in Client::new(self, "").stored(super::SERVICES, key.namespace()) {
                    jobs.push(Job::Simulate {
                        kind: Simulated::Services,
                        key: stored.key.clone(),
                    });
                }
            }
            ("", "serviceaccounts") if &*key.name == namespaces::ACCOUNT => {
                jobs.extend(simulator.namespace_of(key));
            }
            ("", "configmaps") if &*key.name == namespaces::ROOT_CA => {
                jobs.extend(simulator.namespace_of(key));
            }
            ("", "nodes") => {
                let kinds = [Simulated::DaemonSets, Simulated::Pods].into_iter();
                for kind in kinds.filter(|kind| simulator.simulates(*kind)) {
                    jobs.extend(self.reconciliations(kind));
                }
            }
            _ => {}
        }
        jobs
    }

    /// Runs timers and follows changes of scripts until the server ends.
    pub(crate) async fn run_simulation(self: Arc<Self>) {
        let Some(simulator) = &self.simulation else {
            return;
        };
        loop {
            tokio::select! {
                biased;
                () = simulator.scripts.changed() => {
                    for kind in [Simulated::Pods, Simulated::Claims, Simulated::Services] {
                        if simulator.simulates(kind) {
                            self.reconcile_all(kind);
                        }
                    }
                }
                item = simulator.timers.next() => {
                    self.jobs.push(Job::Simulate { kind: item.kind, key: item.key });
                }
            }
        }
    }

    /// Reconciles the pods of a namespace if the annotated behaviour of a workload has changed.
    fn follow_behaviour(&self, simulator: &Simulator, kind: Simulated, key: &Key) {
        let is_workload = !matches!(
            kind,
            Simulated::Pods | Simulated::Services | Simulated::Claims | Simulated::Namespaces
        );
        if !is_workload || !simulator.simulates(Simulated::Pods) {
            return;
        }
        let client = Client::new(self, "");
        let workload = client.get(kind.resource(), key);
        if workload.is_some_and(|workload| simulator.record(&workload)) {
            for stored in client.stored(super::PODS, key.namespace()) {
                self.jobs.push(Job::Simulate {
                    kind: Simulated::Pods,
                    key: stored.key.clone(),
                });
            }
        }
    }

    /// Reconciles an object.
    pub(crate) async fn simulate(&self, kind: Simulated, key: &Key) -> Result<()> {
        let Some(simulator) = &self.simulation else {
            return Ok(());
        };
        self.follow_behaviour(simulator, kind, key);
        match kind {
            Simulated::Pods => pods::reconcile(self, simulator, key).await,
            Simulated::ReplicaSets => super::replica_sets::reconcile(self, simulator, key).await,
            Simulated::Deployments => super::deployments::reconcile(self, simulator, key).await,
            Simulated::StatefulSets => super::stateful_sets::reconcile(self, key).await,
            Simulated::DaemonSets => super::daemon_sets::reconcile(self, key).await,
            Simulated::Jobs => super::jobs::reconcile(self, simulator, key).await,
            Simulated::Services => super::services::reconcile(self, simulator, key).await,
            Simulated::Claims => super::claims::reconcile(self, simulator, key).await,
            Simulated::Namespaces => namespaces::reconcile(self, key).await,
        }
    }

    /// Returns `true` if an object of a built-in kind exists.
    pub(super) fn exists(&self, resource: Resource, key: &Key) -> bool {
        self.built_in(resource.group, resource.plural)
            .is_some_and(|kind| self.store.get(&collection(&kind), key).is_some())
    }

    /// Returns the behaviour of an object: by its annotation, that of its controllers, or a script.
    pub(super) fn behaviour(&self, simulator: &Simulator, object: &Value) -> Option<Behaviour> {
        let client = Client::new(self, "");
        let mut annotated = Behaviour::annotated(object);
        let mut owner = controller(object).cloned();
        // Pod, ReplicaSet, Deployment: the longest chain of built-in kinds.
        for _ in 0..2 {
            let (None, Some(reference)) = (annotated, &owner) else {
                break;
            };
            let plural = format!(
                "{}s",
                reference["kind"]
                    .as_str()
                    .unwrap_or_default()
                    .to_lowercase()
            );
            let known = Simulated::ALL.iter().map(|kind| kind.resource());
            let resource = known.into_iter().find(|resource| resource.plural == plural);
            let key = Key::new(
                meta::namespace(object),
                reference["name"].as_str().unwrap_or_default(),
            );
            let found = resource.and_then(|resource| client.get(resource, &key));
            annotated = found.as_ref().and_then(Behaviour::annotated);
            owner = found.as_ref().and_then(|found| controller(found).cloned());
        }
        annotated.or_else(|| simulator.scripts.of(object))
    }
}
