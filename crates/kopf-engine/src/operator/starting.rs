//! The tasks of an operator, from the moment when its settings are known.

use std::sync::Arc;

use kopf_client::Client;

use super::{Error, Operator};
use crate::admission::{self, Memos, Webhooks};
use crate::background::{Fleet, killer};
use crate::clock::Clock;
use crate::execution::BlockingPool;
use crate::indexing::Barrier;
use crate::invocation::OperatorContext;
use crate::observation::{NamespaceObserver, ResourceObserver, insights, wanted_groups};
use crate::orchestration;
use crate::pausing::Pause;
use crate::peering::{KnownPeers, detect_own_identity, with_peerings};
use crate::permits::Permits;
use crate::posting::{self, Poster};
use crate::probing;
use crate::root::{POSTER, Root};
use crate::shared::Shared;

/// Maximum number of blocking daemons. They hold their threads for as long as their objects exist, so
/// `execution.max_workers` does not apply: the daemons of the next objects would never start.
const DAEMON_THREADS: usize = 512;

impl Operator {
    /// Starts everything that does not depend on how the operator logs in.
    pub(super) fn start(
        self,
        client: &Client,
        clock: Clock,
        pool: BlockingPool,
        root: &mut Root,
    ) -> Arc<Shared> {
        let settings = Arc::new(self.settings);
        self.inspect.set_settings(Arc::clone(&settings));
        let client = client.with_networking(&settings.networking);
        let poster = Poster::new(Arc::clone(&settings), clock);
        let (findings, insights) = insights();
        let groups = with_peerings(wanted_groups(self.registry.selectors()), &settings.peering);
        let resource_observer = ResourceObserver {
            client: client.clone(),
            settings: Arc::clone(&settings),
            groups: admission::with_configurations(groups, &settings),
            vitals: self.inspect.vitals().clone(),
            findings: findings.resources,
        };
        let namespace_observer = NamespaceObserver {
            client: client.clone(),
            settings: Arc::clone(&settings),
            scope: self.scope,
            vitals: self.inspect.vitals().clone(),
            findings: findings.namespaces,
        };
        let shared = Arc::new(Shared {
            context: Arc::new(
                OperatorContext::new(client.clone(), Arc::clone(&settings), clock, self.front)
                    .with_indices(self.indices)
                    .with_memo(self.memo),
            ),
            registry: Arc::new(self.registry),
            lifecycle: self.lifecycle,
            poster: poster.clone(),
            permits: Permits::new(settings.networking.concurrency),
            pool,
            daemon_pool: BlockingPool::new(Some(DAEMON_THREADS)),
            fleet: Fleet::new(root.halt.clone()),
            pause: Pause::default(),
            known_peers: KnownPeers::default(),
            barrier: Barrier::default(),
            memos: Memos::default(),
            ending: root.halt.clone(),
            inspect: self.inspect,
        });

        root.grace = settings.queueing.exit_timeout;
        let handlers = shared.registry.handlers();
        if handlers.iter().any(|handler| handler.kind.is_background()) {
            root.grace = root
                .grace
                .max(killer::grace(&shared.registry, &settings.background));
            let killing = killer::run(Arc::clone(&shared), root.halt.clone());
            root.spawn_graceful("Daemon killer", async move {
                killing.await;
                Ok(())
            });
        }
        root.spawn("Resource observer", root.halt.clone(), async move {
            resource_observer.run().await.map_err(|error| match error {
                kopf_client::Error::Login(error) => Error::Login(error),
                error => Error::Discovery(Box::new(error)),
            })
        });
        root.spawn("Namespace observer", root.halt.clone(), async move {
            namespace_observer.run().await;
            Ok(())
        });
        root.spawn(POSTER, root.halt_last.clone(), async move {
            posting::run(poster, client).await;
            Ok(())
        });
        shared.inspect.vitals().begin(
            settings
                .watching
                .inactivity_timeout
                .unwrap_or(std::time::Duration::MAX),
        );
        if let Some(endpoint) = self.liveness {
            let (shared, halt) = (Arc::clone(&shared), root.halt.clone());
            root.spawn_graceful("Health reporter", async move {
                let serving = probing::serve(shared, endpoint.clone(), halt).await;
                serving.map_err(|source| Error::Probing { endpoint, source })
            });
        }
        let identity = self.identity.unwrap_or_else(|| detect_own_identity(clock));
        if let Some(webhooks) = Webhooks::new(&shared, &insights, &identity) {
            root.spawn_webhooks(webhooks);
        }
        let halt = root.halt.clone();
        let pools = [shared.pool.clone(), shared.daemon_pool.clone()];
        let streamed = Arc::clone(&shared);
        root.spawn_graceful("Multidimensional multitasker", async move {
            let shared = streamed;
            let streaming = orchestration::run(shared, identity, insights, self.ready, halt).await;
            for pool in pools {
                pool.report_left();
            }
            streaming.map_err(|error| Error::Streaming(Box::new(error)))
        });
        shared
    }
}
