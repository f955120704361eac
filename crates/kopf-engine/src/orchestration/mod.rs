//! Orchestration of streams: one for every served resource in every served namespace.
//!
//! The resources and namespaces come from [`observation`](crate::observation). When either changes,
//! streams that are no longer needed are stopped, then the missing ones are started. Peerings,
//! which pause streams, are adjusted in the same way. A stream that ends unexpectedly is an error,
//! so that missed events are never silent.

mod reporting;
mod resolution;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use kopf_core::handler::{Handler, HandlerId};
use kopf_core::registry::shared_id;
use kopf_core::resource::Resource;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use self::reporting::Reporter;
use self::resolution::{Resolution, resolve};
use crate::indexing::{Barrier, Blocker};
use crate::leading;
use crate::observation::{DiscoveryReceiver, Namespaces, Resources};
use crate::peering::Peerings;
use crate::queueing::Stream;
use crate::shared::Shared;
use crate::stream_set::{self, StreamScope, StreamSet};

/// An error that ends the streams.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A stream has ended without being stopped.
    #[error(transparent)]
    Ended(#[from] stream_set::Error),
    /// A reconcile handler and another handler of the same resource have the same id.
    #[error("handler {0:?} shares its id with a reconcile handler")]
    SharedId(HandlerId),
}

/// Runs the streams of the operator until it is stopped, then waits until all of them have ended.
///
/// Notifies `ready` when the streams of the initially discovered resources are started.
pub(crate) async fn run(
    shared: Arc<Shared>,
    identity: String,
    discovery: DiscoveryReceiver,
    ready: Option<oneshot::Sender<()>>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let registry = Arc::clone(&shared.registry);
    // The barrier stays closed until the indexed resources are known, that is, until the streams
    // exist.
    let barrier = shared.barrier.clone();
    let assembling = barrier.block();
    let identity = leading::peer_identity(&shared.context, &identity);
    let Some(Ok(identity)) = stop.run_until_cancelled(identity).await else {
        // The operator exits, or ends with the error of the task of this replica.
        stop.cancelled().await;
        return Ok(());
    };
    let peerings = Peerings::new(&shared, identity);
    let health_tracker = shared.inspect.health_tracker().clone();
    let mut reporter = Reporter::new(shared.context.style);
    let mut ready = Some(ready);
    let report = move |watched: &BTreeSet<Arc<Resource>>, namespaces: &Namespaces| {
        reporter.report(watched, namespaces);
        if let Some(ready) = ready.take() {
            health_tracker.ready();
            // The receiver may be dropped.
            let _ = ready.map(|ready| ready.send(()));
        }
    };
    let start = move |scope: StreamScope, stop: CancellationToken| -> BoxFuture<'static, ()> {
        let stream = Stream::new(&shared, scope.resource, scope.namespace, stop);
        Box::pin(stream.run())
    };
    orchestrate(
        registry.handlers(),
        discovery,
        StreamSet::new(start),
        peerings,
        (barrier, assembling),
        report,
        stop,
    )
    .await
}

async fn orchestrate<F, S>(
    handlers: &[Arc<Handler<F>>],
    mut discovery: DiscoveryReceiver,
    mut streams: StreamSet<S>,
    mut peerings: Peerings,
    (barrier, assembling): (Barrier, Blocker),
    mut report: impl FnMut(&BTreeSet<Arc<Resource>>, &Namespaces),
    stop: CancellationToken,
) -> Result<(), Error>
where
    S: Fn(StreamScope, CancellationToken) -> BoxFuture<'static, ()>,
{
    let mut resolver = Resolver::new(handlers);
    let mut first = Some(assembling);
    let outcome = loop {
        let cluster = tokio::select! {
            () = stop.cancelled() => break Ok(()),
            // An ended stream is detected even if the cluster does not change.
            error = streams.failure() => break Err(error.into()),
            error = peerings.failure() => break Err(error.into()),
            cluster = discovery.next() => cluster,
        };
        // The observers end only with the operator.
        let Some((resources, namespaces)) = cluster else {
            stop.cancelled().await;
            break Ok(());
        };
        // The barrier is also closed for new streams, so that no handler runs before all of them
        // are indexed.
        let assembling = first.take().unwrap_or_else(|| barrier.block());
        let watched = resolver.resolve(&resources);
        let mut shared = watched.iter().filter_map(|one| shared_id(handlers, one));
        if let Some(id) = shared.next() {
            break Err(Error::SharedId(id));
        }
        // Pauses must be set before any stream starts.
        if let Err(error) = peerings.adjust(&resources, &namespaces).await {
            break Err(error.into());
        }
        if let Err(error) = streams.adjust(stream_scopes(&watched, &namespaces)).await {
            break Err(error.into());
        }
        drop(assembling);
        report(&watched, &namespaces);
    };
    streams.stop().await;
    // Other operators may resume only when no handler runs here any more.
    peerings.stop().await;
    debug!("Streaming tasks are stopped.");
    outcome
}

/// A resolver of selectors that logs each warning once.
struct Resolver<'a, F> {
    handlers: &'a [Arc<Handler<F>>],
    seen: Option<(Resources, BTreeSet<Arc<Resource>>)>,
    warnings: BTreeSet<String>,
}

impl<'a, F> Resolver<'a, F> {
    fn new(handlers: &'a [Arc<Handler<F>>]) -> Self {
        Self {
            handlers,
            seen: None,
            warnings: BTreeSet::new(),
        }
    }

    fn resolve(&mut self, resources: &Resources) -> BTreeSet<Arc<Resource>> {
        if let Some((seen, watched)) = &self.seen
            && Arc::ptr_eq(seen, resources)
        {
            return watched.clone();
        }
        let Resolution { watched, warnings } = resolve(self.handlers, resources);
        for warning in warnings.difference(&self.warnings) {
            warn!("{warning}");
        }
        self.warnings = warnings;
        self.seen = Some((Arc::clone(resources), watched.clone()));
        watched
    }
}

/// Returns the streams to run. Cluster-scoped resources have exactly one stream.
fn stream_scopes(
    watched: &BTreeSet<Arc<Resource>>,
    namespaces: &Namespaces,
) -> BTreeSet<StreamScope> {
    let mut scopes = BTreeSet::new();
    for resource in watched {
        let scope = |namespace: Option<&String>| StreamScope {
            resource: Arc::clone(resource),
            namespace: namespace.cloned(),
        };
        match namespaces {
            Namespaces::Listed(names) if resource.namespaced => {
                scopes.extend(names.iter().map(|name| scope(Some(name))));
            }
            Namespaces::Listed(_) | Namespaces::All => {
                scopes.insert(scope(None));
            }
        }
    }
    scopes
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use kopf_core::handler::{FunctionId, HandlerKind, HandlerSpec};
    use kopf_core::selector::Selector;
    use tokio::task::JoinSet;
    use tracing::Level;

    use super::*;
    use crate::captured::capture;
    use crate::fake_api::kind;
    use crate::observation::{DiscoverySender, discovery_channel};

    /// An orchestration whose streams only record their start and end.
    struct Fixture {
        sender: DiscoverySender,
        steps: Arc<Mutex<Vec<String>>>,
        stop: CancellationToken,
        tasks: JoinSet<Result<(), Error>>,
        ready: oneshot::Receiver<()>,
    }

    impl Fixture {
        fn new(selectors: &[&str]) -> Self {
            let handlers: Vec<_> = selectors
                .iter()
                .map(|name| {
                    let kind = HandlerKind::Create;
                    let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), kind);
                    spec.selector = Some(Selector::parse(&[name]).unwrap());
                    Arc::new(spec.build(()).unwrap())
                })
                .collect();
            let (sender, discovery) = discovery_channel();
            let steps: Arc<Mutex<Vec<String>>> = Arc::default();
            let stop = CancellationToken::new();
            let (told, ready) = oneshot::channel();
            let mut told = Some(told);
            let written = Arc::clone(&steps);
            let start =
                move |scope: StreamScope, stop: CancellationToken| -> BoxFuture<'static, ()> {
                    let written = Arc::clone(&written);
                    let write = move |what: &str| {
                        written.lock().unwrap().push(format!("{what} {scope}"));
                        scope.resource.plural.clone()
                    };
                    Box::pin(async move {
                        match write("start").as_str() {
                            "endings" => return,
                            "panics" => panic!("on purpose"),
                            _ => stop.cancelled().await,
                        }
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        write("end");
                    })
                };
            let mut tasks = JoinSet::new();
            let child = stop.clone();
            let peerings = Peerings::none();
            tasks.spawn(async move {
                let streams = StreamSet::new(start);
                orchestrate(
                    &handlers,
                    discovery,
                    streams,
                    peerings,
                    nothing_indexed(),
                    move |_, _| {
                        let _ = told.take().map(|told| told.send(()));
                    },
                    child,
                )
                .await
            });
            Self {
                sender,
                steps,
                stop,
                tasks,
                ready,
            }
        }

        fn find(&self, kinds: &[Resource]) {
            let kinds = kinds.iter().cloned().map(Arc::new).collect();
            self.sender.resources.send_replace(Some(Arc::new(kinds)));
        }

        fn serve(&self, names: &[&str]) {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            let namespaces = Namespaces::Listed(names);
            self.sender.namespaces.send_replace(Some(namespaces));
        }

        /// Returns the steps since the last call.
        async fn steps(&self) -> Vec<String> {
            tokio::time::sleep(Duration::from_secs(10)).await;
            std::mem::take(&mut *self.steps.lock().unwrap())
        }

        async fn outcome(mut self) -> Result<(), Error> {
            self.tasks.join_next().await.unwrap().unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_resource_has_a_stream_in_every_namespace() {
        let mut fixture = Fixture::new(&["things", "nodes"]);
        let nodes = Resource {
            namespaced: false,
            ..kind("", "nodes")
        };
        fixture.find(&[kind("g", "things"), nodes]);
        assert!(
            fixture.steps().await.is_empty(),
            "namespaces are not known yet"
        );
        assert!(fixture.ready.try_recv().is_err());
        fixture.serve(&["a", "b"]);
        assert_eq!(
            fixture.steps().await,
            [
                "start nodes.v1 cluster-wide",
                "start things.v1.g in 'a'",
                "start things.v1.g in 'b'",
            ]
        );
        assert!(fixture.ready.try_recv().is_ok());
        fixture.stop.cancel();
        let steps = Arc::clone(&fixture.steps);
        fixture.outcome().await.unwrap();
        assert_eq!(steps.lock().unwrap().len(), 3, "all streams have ended");
    }

    #[tokio::test(start_paused = true)]
    async fn cluster_wide_operators_have_one_stream_per_resource() {
        let fixture = Fixture::new(&["things"]);
        fixture.find(&[kind("g", "things")]);
        fixture
            .sender
            .namespaces
            .send_replace(Some(Namespaces::All));
        assert_eq!(fixture.steps().await, ["start things.v1.g cluster-wide"]);
    }

    #[tokio::test(start_paused = true)]
    async fn redundant_streams_end_before_missing_ones_start() {
        let fixture = Fixture::new(&["things"]);
        fixture.find(&[kind("g", "things")]);
        fixture.serve(&["a", "b"]);
        fixture.steps().await;
        fixture.serve(&["b", "c"]);
        assert_eq!(
            fixture.steps().await,
            ["end things.v1.g in 'a'", "start things.v1.g in 'c'"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn streams_follow_added_and_removed_resources() {
        let fixture = Fixture::new(&["things"]);
        fixture.serve(&["a"]);
        fixture.find(&[]);
        assert!(fixture.steps().await.is_empty());
        fixture.find(&[kind("g", "things")]);
        assert_eq!(fixture.steps().await, ["start things.v1.g in 'a'"]);
        fixture.find(&[kind("g", "things"), kind("g", "others")]);
        assert!(fixture.steps().await.is_empty());
        fixture.find(&[kind("g", "others")]);
        assert_eq!(fixture.steps().await, ["end things.v1.g in 'a'"]);
        fixture.find(&[kind("g", "things")]);
        assert_eq!(fixture.steps().await, ["start things.v1.g in 'a'"]);
    }

    #[tokio::test(start_paused = true)]
    async fn changed_details_of_a_resource_restart_its_stream() {
        let fixture = Fixture::new(&["things"]);
        fixture.serve(&["a"]);
        fixture.find(&[kind("g", "things")]);
        fixture.steps().await;
        let things = Resource {
            subresources: ["status".to_owned()].into(),
            ..kind("g", "things")
        };
        fixture.find(&[things]);
        assert_eq!(
            fixture.steps().await,
            ["end things.v1.g in 'a'", "start things.v1.g in 'a'"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_ends_unexpectedly_is_an_error() {
        for plural in ["endings", "panics"] {
            let fixture = Fixture::new(&[plural, "things"]);
            fixture.serve(&["a"]);
            fixture.find(&[kind("g", plural), kind("g", "things")]);
            let steps = Arc::clone(&fixture.steps);
            let error = fixture.outcome().await.unwrap_err().to_string();
            assert!(error.contains(plural), "{error}");
            let last = steps.lock().unwrap().last().cloned();
            assert_eq!(
                last.as_deref(),
                Some("end things.v1.g in 'a'"),
                "other streams are drained"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unchanged_warnings_are_not_repeated() {
        let captured = capture(Level::WARN);
        let fixture = Fixture::new(&["things"]);
        fixture.serve(&["a"]);
        let missing = "Unresolved resources cannot be served (try creating their CRDs): \
                       name=\"things\"";
        for (kinds, warnings) in [
            (vec![], 1),
            (vec![kind("g", "others")], 1),
            (vec![kind("g", "things")], 1),
            (vec![], 2),
        ] {
            fixture.find(&kinds);
            fixture.steps().await;
            assert_eq!(captured.messages(Level::WARN), vec![missing; warnings]);
        }
    }

    fn nothing_indexed() -> (Barrier, Blocker) {
        let barrier = Barrier::default();
        (barrier.clone(), barrier.block())
    }
}
