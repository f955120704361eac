//! Peering: of several operators that serve the same objects, only the one with the highest
//! priority is active.
//!
//! ```text
//! Peerings ── for every peering kind × served namespace ─┬─ PeerWatcher    reads, pauses
//!                                                        └─ Participation  writes
//! ```
//!
//! The rules are in `kopf_core::peering`. Other modules depend on [`pausing`](crate::pausing) only.
//! [`freeze`] and [`resume`] implement the commands that pause the operators of a cluster.

mod command;
mod own_identity;
mod participation;
mod peer_watcher;
mod peering_object;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use kopf_client::discovery::Groups;
use kopf_client::watching::observe;
use kopf_core::peering::{CLUSTER_PLURAL, GROUPS, NAMESPACED_PLURAL, VERSION};
use kopf_core::resource::Resource;
use kopf_core::settings::{Peering, Settings};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

pub use self::command::{
    CommandOutcome, Error as CommandError, Report as CommandReport, freeze,
    own_identity as command_identity, resume,
};
pub(crate) use self::own_identity::detect as detect_own_identity;
use self::participation::{Participation, WriteRequests};
use self::peer_watcher::PeerWatcher;
use self::peering_object::PeeringObject;
use crate::observation::{Namespaces, Resources};
use crate::pausing::{Flag, Pause};
use crate::shared::Shared;
use crate::stream_set::{Error, StreamScope, StreamSet};

type Start = Box<dyn Fn(StreamScope, CancellationToken) -> BoxFuture<'static, ()> + Send + Sync>;

/// All peerings of one operator.
pub(crate) struct Peerings {
    settings: Arc<Settings>,
    /// Set while peering is mandatory and its CRD does not exist.
    missing: Flag,
    streams: StreamSet<Start>,
    /// `true` until the operator starts to handle objects.
    is_first: Arc<AtomicBool>,
    is_warned: bool,
}

impl Peerings {
    pub(crate) fn new(shared: &Arc<Shared>, identity: String) -> Self {
        let context = &shared.context;
        let is_first = Arc::new(AtomicBool::new(true));
        let starter = ParticipationStarter {
            shared: Arc::clone(shared),
            identity,
            is_first: Arc::clone(&is_first),
        };
        Self {
            settings: Arc::clone(&context.settings),
            missing: shared.pause.flag("peering CRD is missing"),
            streams: StreamSet::new(Box::new(move |scope, stop| starter.start(scope, stop))),
            is_first,
            is_warned: false,
        }
    }

    /// Creates the peerings of a standalone operator.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        let mut settings = Settings::default();
        settings.peering.standalone = true;
        Self {
            settings: Arc::new(settings),
            missing: Pause::default().flag("none"),
            streams: StreamSet::new(Box::new(|_, _| Box::pin(std::future::ready(())))),
            is_first: Arc::default(),
            is_warned: false,
        }
    }

    /// Starts and stops participations so that they match the existing peerings.
    pub(crate) async fn adjust(
        &mut self,
        resources: &Resources,
        namespaces: &Namespaces,
    ) -> Result<(), Error> {
        let peering = &self.settings.peering;
        let kinds = kinds(peering, resources);
        let scopes = peering_scopes(&kinds, namespaces);
        let is_missing = peering.mandatory && !peering.standalone && scopes.is_empty();
        if is_missing && !self.missing.is_on() {
            let what = if kinds.is_empty() {
                "The CRDs of peering objects are not found"
            } else {
                "No served namespace can contain peering objects"
            };
            warn!("{what}. Operations are paused until they exist, since peering is mandatory.");
        }
        if !peering.standalone
            && !peering.clusterwide
            && *namespaces == Namespaces::All
            && !std::mem::replace(&mut self.is_warned, true)
        {
            warn!("Namespaced peering is not possible for a cluster-wide operator.");
        }
        if is_missing {
            self.missing.set(true);
        }
        self.streams.adjust(scopes).await?;
        self.missing.set(is_missing);
        self.is_first.store(false, Ordering::Release);
        Ok(())
    }

    /// Waits until a participation fails. Cancel-safe.
    pub(crate) async fn failure(&mut self) -> Error {
        self.streams.failure().await
    }

    /// Leaves all peerings.
    pub(crate) async fn stop(&mut self) {
        self.streams.stop().await;
    }
}

/// Returns the API groups to discover, including those of peerings.
pub(crate) fn with_peerings(groups: Groups, peering: &Peering) -> Groups {
    match groups {
        Groups::Only(mut groups) if !peering.standalone => {
            groups.extend(GROUPS.map(str::to_owned));
            Groups::Only(groups)
        }
        groups => groups,
    }
}

/// Returns the peering resources that the settings select.
fn kinds(peering: &Peering, resources: &Resources) -> Vec<Arc<Resource>> {
    let plural = if peering.clusterwide {
        CLUSTER_PLURAL
    } else {
        NAMESPACED_PLURAL
    };
    let is_peering = |resource: &&Arc<Resource>| {
        resource.plural == plural
            && resource.version == VERSION
            && GROUPS.contains(&&*resource.group)
    };
    if peering.standalone {
        return Vec::new();
    }
    resources.iter().filter(is_peering).cloned().collect()
}

/// Returns the resources and namespaces of peering objects. Cluster-scoped objects have no
/// namespace.
fn peering_scopes(kinds: &[Arc<Resource>], namespaces: &Namespaces) -> BTreeSet<StreamScope> {
    let mut scopes = BTreeSet::new();
    for resource in kinds {
        let scope = |namespace: Option<&String>| StreamScope {
            resource: Arc::clone(resource),
            namespace: namespace.cloned(),
        };
        match namespaces {
            _ if !resource.namespaced => {
                scopes.insert(scope(None));
            }
            Namespaces::Listed(names) => scopes.extend(names.iter().map(|name| scope(Some(name)))),
            Namespaces::All => {}
        }
    }
    scopes
}

/// Starts participations in peerings.
struct ParticipationStarter {
    shared: Arc<Shared>,
    identity: String,
    is_first: Arc<AtomicBool>,
}

impl ParticipationStarter {
    fn start(&self, scope: StreamScope, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let context = Arc::clone(&self.shared.context);
        let peering = context.settings.peering.clone();
        let flag = self.flag(&self.shared.pause, &peering, scope.namespace.as_deref());
        let me = Participation {
            object: PeeringObject {
                client: context.client.clone(),
                resource: Arc::clone(&scope.resource),
                namespace: scope.namespace.clone(),
                name: peering.name.clone(),
            },
            settings: peering,
            clock: context.clock,
            style: context.style,
            identity: self.identity.clone(),
            requests: WriteRequests::default(),
            assignments: self.shared.assignments.clone(),
            exiting: self.shared.ending.clone(),
        };
        let health = self
            .shared
            .inspect
            .health_tracker()
            .stream(scope.to_string());
        let known = self.shared.known_peers.clone();
        Box::pin(async move {
            debug!("Starting the watch-stream for {scope}.");
            let observer = observe(
                context.client.clone(),
                Arc::clone(&scope.resource),
                scope.namespace.clone(),
                &context.settings.watching,
            );
            let reading = PeerWatcher::new(&me, flag, health)
                .noting(known)
                .run(observer);
            me.run(reading, &stop).await;
            debug!("Stopping the watch-stream for {scope}.");
        })
    }

    /// Creates the pause flag of a peering. At the start of the operator, it is set until the first
    /// listing. For peerings that appear later, it is set only if peering is mandatory.
    fn flag(&self, pause: &Pause, peering: &Peering, namespace: Option<&str>) -> Flag {
        let name = &peering.name;
        let mut flag = pause.flag(match namespace {
            Some(namespace) => format!("{name}@{namespace}"),
            None => format!("{name}@None"),
        });
        flag.set(peering.mandatory || self.is_first.load(Ordering::Acquire));
        flag
    }
}
