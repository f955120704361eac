//! The tasks of an operator, from the moment when its settings are known.

use std::sync::Arc;

use super::root::{POSTER, Root};
use super::{Error, Operator};
use crate::admission::{self, Webhooks};
use crate::daemons::{Daemons, killer};
use crate::execution::{BlockingPool, Executor};
use crate::indexing::Barrier;
use crate::invocation::OperatorContext;
use crate::known_peers::KnownPeers;
use crate::observation::{NamespaceObserver, ResourceObserver, insights, wanted_groups};
use crate::orchestration;
use crate::pausing::Pause;
use crate::peering::{detect_own_identity, with_peerings};
use crate::permits::Permits;
use crate::posting::{self, Poster};
use crate::probing;
use crate::review_memos::Memos;
use crate::shared::Shared;

impl Operator {
    /// Starts everything that does not depend on how the operator logs in.
    pub(super) fn start(
        self,
        started: &OperatorContext,
        pool: BlockingPool,
        root: &mut Root,
    ) -> Arc<Shared> {
        let settings = Arc::new(self.settings);
        self.inspect.set_settings(Arc::clone(&settings));
        let clock = started.clock;
        let client = started.client.with_networking(&settings.networking);
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
        let context = Arc::new(OperatorContext {
            client: client.clone(),
            settings: Arc::clone(&settings),
            ..started.clone()
        });
        let executor = Arc::new(Executor::new(Arc::clone(&context), self.lifecycle, pool));
        let daemons = Daemons::new(
            Arc::clone(&executor),
            self.inspect.clone(),
            root.halt.clone(),
        );
        let shared = Arc::new(Shared {
            context,
            registry: Arc::new(self.registry),
            executor,
            poster: poster.clone(),
            permits: Permits::new(settings.networking.concurrency),
            daemons: Arc::new(daemons),
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
            let killing = killer::run(
                Arc::clone(&shared.daemons),
                shared.pause.clone(),
                root.halt.clone(),
            );
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
        let pools = [
            shared.executor.pool.clone(),
            shared.executor.daemon_pool.clone(),
        ];
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
