//! The state of a simulation: its settings, timers, and the state of kubelets.

use std::collections::HashMap;
use std::time::Duration;

use kopf_sandbox_api::answers::Answers;
use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::object::meta;
use kopf_sandbox_store::sync::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::behaviour::{Behaviour, Scripts};
use super::client::{Client, controller};
use super::timers::{Item, Timers};
use super::{Simulated, Simulation};

/// Upper bound for delays, 30 years; adding it to an instant cannot overflow.
const MAX_DELAY: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The simulation of one sandbox.
#[derive(Debug)]
pub struct Simulator {
    pub(super) settings: Simulation,
    pub(super) timers: Timers,
    pub(super) scripts: Scripts,
    pub(super) answers: Answers,
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
    #[doc(hidden)]
    pub fn new(mut settings: Simulation, scripts: Scripts) -> Self {
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

    /// Returns the next number for addresses and for the choice of nodes.
    pub(super) fn next_number(&self) -> u32 {
        let mut counter = self.counter.lock();
        *counter = counter.wrapping_add(1);
        *counter
    }

    /// Returns the state of a pod, after its behaviour was updated. `restarts` is the recorded number.
    pub(super) fn track(&self, pod: &Value, behaviour: Option<Behaviour>, restarts: i64) -> Track {
        let mut tracks = self.tracks.lock();
        let known = tracks.get(meta::uid(pod)).copied();
        if let Some(known) = known.filter(|known| known.behaviour == behaviour) {
            return known;
        }
        let crashed = known.is_some_and(|known| known.behaviour.is_some_and(Behaviour::exits));
        let track = Track {
            behaviour,
            since: Instant::now(),
            restarts: restarts + i64::from(crashed && behaviour.is_none()),
        };
        tracks.insert(meta::uid(pod).to_owned(), track);
        track
    }

    /// Records the annotated behaviour of a workload. Returns `true` if it differs from the
    /// recorded one.
    pub(super) fn record(&self, workload: &Value) -> bool {
        let uid = meta::uid(workload);
        let mut annotated = self.annotated.lock();
        let behaviour = Behaviour::annotated(workload);
        let before = match behaviour {
            Some(behaviour) => annotated.insert(uid.to_owned(), behaviour),
            None => annotated.remove(uid),
        };
        before != behaviour
    }

    /// Reconciles an object after a delay, which replaces an earlier one.
    pub(super) fn wake(&self, kind: Simulated, key: &Key, delay: Duration) {
        let item = Item {
            kind,
            key: key.clone(),
        };
        self.timers.set(item, Instant::now() + delay.min(MAX_DELAY));
    }

    /// Removes the state of an object.
    pub(super) fn forget_object(&self, uid: &str) {
        let mut tracks = self.tracks.lock();
        tracks.remove(uid);
        drop(tracks);
        self.annotated.lock().remove(uid);
    }

    /// Returns the simulated kind of a resource.
    pub(super) fn kind_of(&self, group: &str, plural: &str) -> Option<Simulated> {
        let mut kinds = self.settings.kinds.iter().copied();
        kinds.find(|kind| {
            let resource = kind.resource();
            resource.group == group && resource.plural == plural
        })
    }

    /// Returns the behaviour of an object: by its annotation, that of its controllers, or a script.
    pub(super) fn behaviour(&self, cluster: &Cluster, object: &Value) -> Option<Behaviour> {
        let client = Client::new(cluster, "");
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
        annotated.or_else(|| self.scripts.of(object))
    }
}
