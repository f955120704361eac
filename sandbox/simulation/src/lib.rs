//! Simulated controllers of workloads: pods that become ready, Deployments with pods, bound claims.
//!
//! Off by default. Each controller is one file. It is triggered by writes to the store and by
//! timers, reads the current state, and writes through the same verbs as clients: with defaults,
//! admission, field managers and owner references. Under paused time the same requests give the
//! same history.

#![warn(clippy::too_many_lines)]

mod behaviour;
mod claims;
mod client;
mod controlling;
mod daemon_sets;
mod deployments;
mod endpoints;
mod fields;
mod jobs;
mod lifecycle;
mod namespaces;
mod pod_status;
mod pods;
mod replica_sets;
mod revisions;
mod rollout;
mod services;
mod simulator;
mod stateful_sets;
mod templates;
mod timers;
mod volumes;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use self::behaviour::{Behaviour, Script, Scripts};
#[doc(hidden)]
pub use self::simulator::Simulator;
#[doc(inline)]
pub use kopf_sandbox_api::answers::{Answer, AnswerError, Answers};

/// A kind whose controller is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Simulated {
    /// Pods are bound to a node, become ready, complete, and end when they are deleted.
    Pods,
    /// ReplicaSets create and delete pods.
    ReplicaSets,
    /// Deployments create, scale and roll ReplicaSets.
    Deployments,
    /// StatefulSets create pods and claims, in order.
    StatefulSets,
    /// DaemonSets create a pod for each node.
    DaemonSets,
    /// Jobs create pods until enough of them succeed.
    Jobs,
    /// Services get cluster IPs, node ports, load balancer addresses, EndpointSlices and Endpoints.
    Services,
    /// PersistentVolumeClaims are bound to volumes, which are created where none fits.
    Claims,
    /// Namespaces get the service account `default` and the ConfigMap `kube-root-ca.crt`.
    Namespaces,
}

impl Simulated {
    /// All kinds that can be simulated.
    pub const ALL: [Self; 9] = [
        Self::Pods,
        Self::ReplicaSets,
        Self::Deployments,
        Self::StatefulSets,
        Self::DaemonSets,
        Self::Jobs,
        Self::Services,
        Self::Claims,
        Self::Namespaces,
    ];

    /// Returns the plural name of the kind.
    pub fn name(self) -> &'static str {
        self.resource().plural
    }

    fn resource(self) -> Resource {
        match self {
            Self::Pods => PODS,
            Self::ReplicaSets => REPLICA_SETS,
            Self::Deployments => Resource::new("apps", "deployments"),
            Self::StatefulSets => Resource::new("apps", "statefulsets"),
            Self::DaemonSets => Resource::new("apps", "daemonsets"),
            Self::Jobs => Resource::new("batch", "jobs"),
            Self::Services => SERVICES,
            Self::Claims => CLAIMS,
            Self::Namespaces => NAMESPACES,
        }
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The group and plural name of a built-in kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Resource {
    group: &'static str,
    plural: &'static str,
}

impl Resource {
    const fn new(group: &'static str, plural: &'static str) -> Self {
        Self { group, plural }
    }
}

const PODS: Resource = Resource::new("", "pods");
const NODES: Resource = Resource::new("", "nodes");
const SERVICES: Resource = Resource::new("", "services");
const CLAIMS: Resource = Resource::new("", "persistentvolumeclaims");
const VOLUMES: Resource = Resource::new("", "persistentvolumes");
const REPLICA_SETS: Resource = Resource::new("apps", "replicasets");
const REVISIONS: Resource = Resource::new("apps", "controllerrevisions");
const NAMESPACES: Resource = Resource::new("", "namespaces");
const SERVICE_ACCOUNTS: Resource = Resource::new("", "serviceaccounts");
const CONFIG_MAPS: Resource = Resource::new("", "configmaps");
const ENDPOINTS: Resource = Resource::new("", "endpoints");
const SLICES: Resource = Resource::new("discovery.k8s.io", "endpointslices");

/// The error of an invalid list of kinds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown kind {name:?}: must be one of pods, replicasets, deployments, statefulsets, daemonsets, \
     jobs, services, persistentvolumeclaims, namespaces, or all"
)]
pub struct UnknownKind {
    /// The given name.
    name: String,
}

/// The kinds to simulate, and their timing.
///
/// ```
/// use std::time::Duration;
/// use kopf_sandbox::simulation::Simulation;
///
/// let simulation: Simulation = "deployments,replicasets,pods".parse()?;
/// let simulation = simulation.ready_after(Duration::from_millis(100));
/// # Ok::<(), kopf_sandbox::simulation::UnknownKind>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Simulation {
    kinds: BTreeSet<Simulated>,
    timing: Timing,
    nodes: usize,
    answers: Vec<Answer>,
}

/// Durations of a simulation.
#[derive(Debug, Clone, Copy)]
struct Timing {
    ready_after: Duration,
    running_for: Duration,
}

impl Simulation {
    /// Returns a simulation of the given kinds. Pods are ready after one second.
    pub fn of(kinds: impl IntoIterator<Item = Simulated>) -> Self {
        Self {
            kinds: kinds.into_iter().collect(),
            timing: Timing {
                ready_after: Duration::from_secs(1),
                running_for: Duration::from_secs(1),
            },
            nodes: 1,
            answers: Vec::new(),
        }
    }

    /// Returns a simulation of all kinds.
    pub fn all() -> Self {
        Self::of(Simulated::ALL)
    }

    /// Sets the time from the creation of a pod until its containers run. The default is one second.
    pub fn ready_after(mut self, delay: Duration) -> Self {
        self.timing.ready_after = delay;
        self
    }

    /// Sets the run time of containers that are not restarted after a success, such as those of
    /// Jobs. The default is one second.
    pub fn running_for(mut self, time: Duration) -> Self {
        self.timing.running_for = time;
        self
    }

    /// Sets the number of initial nodes. The default is one. They are created if pods or DaemonSets
    /// are simulated.
    pub fn nodes(mut self, count: usize) -> Self {
        self.nodes = count;
        self
    }

    /// Adds the logs of containers, and the results of commands in them. They are used if pods are
    /// simulated.
    ///
    /// ```
    /// use kopf_sandbox::simulation::{Answer, Simulation};
    ///
    /// let simulation = Simulation::all().answers([Answer::logs("ready\n").pod("db-*")]);
    /// # let _ = simulation;
    /// ```
    pub fn answers(mut self, answers: impl IntoIterator<Item = Answer>) -> Self {
        self.answers.extend(answers);
        self
    }
}

impl FromStr for Simulation {
    type Err = UnknownKind;

    /// Parses a list of plural names, separated by commas; `all` selects all kinds.
    fn from_str(list: &str) -> Result<Self, UnknownKind> {
        let mut kinds = BTreeSet::new();
        for name in list
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            match Simulated::ALL.iter().find(|kind| kind.name() == name) {
                Some(kind) => {
                    kinds.insert(*kind);
                }
                None if name == "all" => kinds.extend(Simulated::ALL),
                None => {
                    return Err(UnknownKind {
                        name: name.to_owned(),
                    });
                }
            }
        }
        if kinds.is_empty() {
            return Err(UnknownKind {
                name: list.to_owned(),
            });
        }
        Ok(Self::of(kinds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_kinds_are_parsed() {
        let some: Simulation = "pods, deployments".parse().unwrap();
        assert_eq!(
            some.kinds,
            BTreeSet::from([Simulated::Pods, Simulated::Deployments])
        );
        let all: Simulation = "all".parse().unwrap();
        assert_eq!(all.kinds.len(), Simulated::ALL.len());
    }

    #[test]
    fn unknown_kinds_are_named_in_the_error() {
        for list in ["pods,cronjobs", "", "pod"] {
            let error = list.parse::<Simulation>().unwrap_err().to_string();
            let named = list.rsplit(',').next().unwrap();
            assert!(error.contains(&format!("{named:?}")), "{error}");
        }
    }
}
