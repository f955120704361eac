//! Start of the tasks of an operator after the startup handlers.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::handler::HandlerKind;
use kopf_core::namespace::Scope;
use kopf_core::rights;
use kopf_core::settings::Replication;
use serde_json::Value;

use super::root::{POSTER, Root};
use super::{Error, Operator};
use tracing::warn;

use crate::admission::{self, Webhooks};
use crate::child_inboxes::ChildInboxes;
use crate::daemons::{Daemons, killer};
use crate::definitions;
use crate::execution::{BlockingPool, Executor};
use crate::indexing::Barrier;
use crate::inspect::Inspect;
use crate::invocation::{OperatorContext, Registry};
use crate::known_peers::KnownPeers;
use crate::leading::{self, Members, Replica};
use crate::observation::{
    DiscoveryReceiver, NamespaceObserver, ResourceObserver, discovery_channel, wanted_groups,
};
use crate::orchestration;
use crate::pausing::Pause;
use crate::peering::{detect_own_identity, with_peerings};
use crate::permissions::Review;
use crate::permits::Permits;
use crate::posting::{self, Poster};
use crate::probing::{self, Role, Site};
use crate::review_memos::Memos;
use crate::shared::Shared;

impl Operator {
    /// Starts all tasks that do not depend on the login.
    pub(super) fn start(
        self,
        started: &OperatorContext,
        pool: BlockingPool,
        root: &mut Root,
    ) -> Arc<Shared> {
        let settings = Arc::new(self.settings);
        self.inspect.set_settings(Arc::clone(&settings));
        let mut client = started.client.with_networking(&settings.networking);
        if let Some(observer) = started.metrics.observer() {
            client = client.with_observer(observer);
        }
        let inboxes = Arc::new(ChildInboxes::default());
        let context = Arc::new(OperatorContext {
            client,
            settings: Arc::clone(&settings),
            children: Arc::clone(&inboxes) as _,
            ..started.clone()
        });
        let executor = Arc::new(Executor::new(Arc::clone(&context), self.lifecycle, pool));
        let shared = share(
            context,
            executor,
            self.registry,
            self.inspect,
            inboxes,
            root,
        );
        root.grace = settings.queueing.exit_timeout;
        spawn_killer(&shared, root);
        let scope = self.scope.clone();
        let discovery = spawn_observers(&shared, self.scope, self.definitions, root);
        if settings.scanning.review_permissions {
            spawn_review(&shared, scope, &discovery, root);
        }
        let (poster, client) = (shared.poster.clone(), shared.context.client.clone());
        root.spawn(POSTER, root.halt_last.clone(), async move {
            posting::run(poster, client).await;
            Ok(())
        });
        let inactivity = settings.watching.inactivity_timeout;
        let health_tracker = shared.inspect.health_tracker();
        health_tracker.begin(inactivity.unwrap_or(Duration::MAX));
        for site in self.sites {
            spawn_server(&shared, site, root);
        }
        let identity = self.identity;
        let identity = identity.unwrap_or_else(|| detect_own_identity(started.clock));
        if let Some(webhooks) = Webhooks::new(&shared, &discovery, &identity) {
            root.spawn_webhooks(webhooks);
        }
        spawn_replica(&shared, &identity, root);
        let (streamed, halt) = (Arc::clone(&shared), root.halt.clone());
        root.spawn_graceful("Multidimensional multitasker", async move {
            let executor = Arc::clone(&streamed.executor);
            let streaming = orchestration::run(streamed, identity, discovery, self.ready, halt);
            let streamed = streaming.await;
            for pool in [&executor.pool, &executor.daemon_pool] {
                pool.report_left();
            }
            streamed.map_err(|error| match error {
                orchestration::Error::SharedId(id) => Error::SharedId { id },
                error @ orchestration::Error::Ended(_) => Error::Streaming(Box::new(error)),
            })
        });
        shared
    }
}

fn share(
    context: Arc<OperatorContext>,
    executor: Arc<Executor>,
    registry: Registry,
    inspect: Inspect,
    child_inboxes: Arc<ChildInboxes>,
    root: &Root,
) -> Arc<Shared> {
    let settings = &context.settings;
    let daemons = Daemons::new(Arc::clone(&executor), inspect.clone(), root.halt.clone());
    let metrics = &context.metrics;
    let pause = Pause::default();
    metrics.watch(inspect.counts(), pause.clone());
    let posting = metrics.posting();
    Arc::new(Shared {
        registry: Arc::new(registry),
        executor,
        poster: Poster::measured(Arc::clone(settings), context.clock, posting),
        permits: Permits::new(settings.networking.concurrency),
        daemons: Arc::new(daemons),
        pause,
        assignments: leading::first_assignment(&settings.leading),
        known_peers: KnownPeers::default(),
        members: Members::default(),
        barrier: Barrier::default(),
        child_inboxes,
        memos: Memos::default(),
        ending: root.halt.clone(),
        inspect,
        context,
    })
}

/// Spawns the killer of daemons and timers, if there are any.
fn spawn_killer(shared: &Shared, root: &mut Root) {
    let mut handlers = shared.registry.handlers().iter();
    if !handlers.any(|handler| handler.kind.is_background()) {
        return;
    }
    let background = &shared.context.settings.background;
    let grace = killer::grace(&shared.registry, background);
    root.grace = root.grace.max(grace);
    let (daemons, pause) = (Arc::clone(&shared.daemons), shared.pause.clone());
    let killing = killer::run(
        daemons,
        pause,
        shared.assignments.clone(),
        root.halt.clone(),
    );
    root.spawn_graceful("Daemon killer", async move {
        killing.await;
        Ok(())
    });
}

/// Spawns the coordination with other replicas, if replicas are enabled.
fn spawn_replica(shared: &Shared, identity: &str, root: &mut Root) {
    let context = &shared.context;
    let replication = context.settings.leading.replication();
    if replication == Replication::Single {
        return;
    }
    warn_of_unknown_indices(shared);
    let replica = Replica {
        settings: Arc::clone(&context.settings),
        identity: leading::replica_identity(identity),
        assignments: shared.assignments.clone(),
        members: shared.members.clone(),
        serves_webhooks: admission::is_managed(&shared.registry, &context.settings.admission),
        clock: context.clock,
    };
    let (client, halt) = (context.client.clone(), root.halt.clone());
    let (assignments, metrics) = (shared.assignments.clone(), context.metrics.clone());
    root.spawn_graceful("Replica coordinator", async move {
        tokio::select! {
            ended = leading::run(client, replica, halt) => Ok(ended?),
            () = leading::measure(replication, &assignments, &metrics) => Ok(()),
        }
    });
}

/// Logs the names of sharded indices that do not exist.
fn warn_of_unknown_indices(shared: &Shared) {
    for id in &shared.context.settings.leading.sharded_indices {
        let mut handlers = shared.registry.handlers().iter();
        if !handlers.any(|handler| handler.kind == HandlerKind::Index && *handler.id == **id) {
            warn!("settings.leading.sharded_indices contains {id:?}, which is not an index.");
        }
    }
}

/// Spawns the observers of resources and namespaces. CRDs are installed before resources are
/// discovered.
fn spawn_observers(
    shared: &Shared,
    scope: Scope,
    definitions: Vec<Value>,
    root: &mut Root,
) -> DiscoveryReceiver {
    let OperatorContext {
        client, settings, ..
    } = &*shared.context;
    let (sender, discovery) = discovery_channel();
    let groups = wanted_groups(shared.registry.selectors());
    let groups = with_peerings(groups, &settings.peering);
    let resource_observer = ResourceObserver {
        client: client.clone(),
        settings: Arc::clone(settings),
        groups: admission::with_configurations(groups, settings),
        health_tracker: shared.inspect.health_tracker().clone(),
        sender: sender.resources,
    };
    let namespace_observer = NamespaceObserver {
        client: client.clone(),
        settings: Arc::clone(settings),
        scope,
        health_tracker: shared.inspect.health_tracker().clone(),
        sender: sender.namespaces,
    };
    root.spawn("Resource observer", root.halt.clone(), async move {
        if resource_observer.settings.scanning.install_crds {
            definitions::install(&resource_observer.client, &definitions).await?;
        }
        resource_observer.run().await.map_err(|error| match error {
            kopf_client::Error::Login(error) => Error::Login(error),
            error => Error::Discovery(Box::new(error)),
        })
    });
    root.spawn("Namespace observer", root.halt.clone(), async move {
        namespace_observer.run().await;
        Ok(())
    });
    discovery
}

fn spawn_review(
    shared: &Arc<Shared>,
    scope: Scope,
    discovery: &DiscoveryReceiver,
    root: &mut Root,
) {
    let settings = &shared.context.settings;
    let (scanning, leading) = (&settings.scanning, &settings.leading);
    let review = Review {
        shared: Arc::clone(shared),
        scope,
        options: rights::Options {
            leases: match (leading.replication(), &leading.namespace) {
                (Replication::Single, _) | (_, None) => rights::Leases::Unused,
                (_, Some(namespace)) => rights::Leases::In(namespace.clone()),
            },
            installs_definitions: scanning.install_crds,
        },
        discovery: discovery.clone(),
    };
    root.spawn("Permission review", root.halt.clone(), async move {
        review.run().await;
        Ok(())
    });
}

fn spawn_server(shared: &Arc<Shared>, site: Site, root: &mut Root) {
    let (shared, halt) = (Arc::clone(shared), root.halt.clone());
    let (endpoint, role) = (site.endpoint.clone(), site.role);
    let name = match role {
        Role::Probes => "Health reporter",
        Role::Metrics => "Metrics reporter",
    };
    root.spawn_graceful(name, async move {
        let serving = probing::serve(shared, site, halt).await;
        serving.map_err(|source| match role {
            Role::Probes => Error::Probing { endpoint, source },
            Role::Metrics => Error::Metrics { endpoint, source },
        })
    });
}
