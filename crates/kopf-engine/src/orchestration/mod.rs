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
use kopf_core::handler::Handler;
use kopf_core::resource::Resource;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use self::reporting::Reporter;
use self::resolution::{Resolution, resolve};
use crate::ensemble::{Ensemble, Error, Place};
use crate::indexing::{Barrier, Blocker};
use crate::object;
use crate::observation::{Insights, Namespaces, Resources};
use crate::peering::Peerings;
use crate::shared::Shared;

/// Runs the streams of the operator until it is stopped, then waits until all of them have ended.
///
/// Notifies `ready` when the streams of the initially discovered resources are started.
pub(crate) async fn run(
    shared: Arc<Shared>,
    identity: String,
    insights: Insights,
    ready: Option<oneshot::Sender<()>>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let registry = Arc::clone(&shared.registry);
    let peerings = Peerings::new(&shared, identity);
    // The barrier stays closed until the indexed resources are known, that is, until the streams
    // exist.
    let barrier = shared.barrier.clone();
    let assembling = barrier.block();
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
    let start = move |place: Place, stop: CancellationToken| -> BoxFuture<'static, ()> {
        let stream = object::stream(&shared, place.resource, place.namespace, stop);
        Box::pin(stream.run())
    };
    orchestrate(
        registry.handlers(),
        insights,
        Ensemble::new(start),
        peerings,
        (barrier, assembling),
        report,
        stop,
    )
    .await
}

async fn orchestrate<F, S>(
    handlers: &[Arc<Handler<F>>],
    mut insights: Insights,
    mut ensemble: Ensemble<S>,
    mut peerings: Peerings,
    (barrier, assembling): (Barrier, Blocker),
    mut report: impl FnMut(&BTreeSet<Arc<Resource>>, &Namespaces),
    stop: CancellationToken,
) -> Result<(), Error>
where
    S: Fn(Place, CancellationToken) -> BoxFuture<'static, ()>,
{
    let mut resolver = Resolver::new(handlers);
    let mut first = Some(assembling);
    let outcome = loop {
        let cluster = tokio::select! {
            () = stop.cancelled() => break Ok(()),
            // An ended stream is detected even if the cluster does not change.
            error = ensemble.failure() => break Err(error),
            error = peerings.failure() => break Err(error),
            cluster = insights.next() => cluster,
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
        // Pauses must be set before any stream starts.
        if let Err(error) = peerings.adjust(&resources, &namespaces).await {
            break Err(error);
        }
        if let Err(error) = ensemble.adjust(places(&watched, &namespaces)).await {
            break Err(error);
        }
        drop(assembling);
        report(&watched, &namespaces);
    };
    ensemble.stop().await;
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
fn places(watched: &BTreeSet<Arc<Resource>>, namespaces: &Namespaces) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    for resource in watched {
        let place = |namespace: Option<&String>| Place {
            resource: Arc::clone(resource),
            namespace: namespace.cloned(),
        };
        match namespaces {
            Namespaces::Listed(names) if resource.namespaced => {
                places.extend(names.iter().map(|name| place(Some(name))));
            }
            Namespaces::Listed(_) | Namespaces::All => {
                places.insert(place(None));
            }
        }
    }
    places
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
    use crate::observation::{Findings, insights};

    /// An orchestration whose streams only record their start and end.
    struct Play {
        findings: Findings,
        steps: Arc<Mutex<Vec<String>>>,
        stop: CancellationToken,
        tasks: JoinSet<Result<(), Error>>,
        ready: oneshot::Receiver<()>,
    }

    impl Play {
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
            let (findings, insights) = insights();
            let steps: Arc<Mutex<Vec<String>>> = Arc::default();
            let stop = CancellationToken::new();
            let (told, ready) = oneshot::channel();
            let mut told = Some(told);
            let written = Arc::clone(&steps);
            let start = move |place: Place, stop: CancellationToken| -> BoxFuture<'static, ()> {
                let written = Arc::clone(&written);
                let write = move |what: &str| {
                    written.lock().unwrap().push(format!("{what} {place}"));
                    place.resource.plural.clone()
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
                let streams = Ensemble::new(start);
                orchestrate(
                    &handlers,
                    insights,
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
                findings,
                steps,
                stop,
                tasks,
                ready,
            }
        }

        fn find(&self, kinds: &[Resource]) {
            let kinds = kinds.iter().cloned().map(Arc::new).collect();
            self.findings.resources.send_replace(Some(Arc::new(kinds)));
        }

        fn serve(&self, names: &[&str]) {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            let namespaces = Namespaces::Listed(names);
            self.findings.namespaces.send_replace(Some(namespaces));
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
        let mut play = Play::new(&["things", "nodes"]);
        let nodes = Resource {
            namespaced: false,
            ..kind("", "nodes")
        };
        play.find(&[kind("g", "things"), nodes]);
        assert!(
            play.steps().await.is_empty(),
            "namespaces are not known yet"
        );
        assert!(play.ready.try_recv().is_err());
        play.serve(&["a", "b"]);
        assert_eq!(
            play.steps().await,
            [
                "start nodes.v1 cluster-wide",
                "start things.v1.g in 'a'",
                "start things.v1.g in 'b'",
            ]
        );
        assert!(play.ready.try_recv().is_ok());
        play.stop.cancel();
        let steps = Arc::clone(&play.steps);
        play.outcome().await.unwrap();
        assert_eq!(steps.lock().unwrap().len(), 3, "all streams have ended");
    }

    #[tokio::test(start_paused = true)]
    async fn cluster_wide_operators_have_one_stream_per_resource() {
        let play = Play::new(&["things"]);
        play.find(&[kind("g", "things")]);
        play.findings.namespaces.send_replace(Some(Namespaces::All));
        assert_eq!(play.steps().await, ["start things.v1.g cluster-wide"]);
    }

    #[tokio::test(start_paused = true)]
    async fn redundant_streams_end_before_missing_ones_start() {
        let play = Play::new(&["things"]);
        play.find(&[kind("g", "things")]);
        play.serve(&["a", "b"]);
        play.steps().await;
        play.serve(&["b", "c"]);
        assert_eq!(
            play.steps().await,
            ["end things.v1.g in 'a'", "start things.v1.g in 'c'"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn streams_follow_added_and_removed_resources() {
        let play = Play::new(&["things"]);
        play.serve(&["a"]);
        play.find(&[]);
        assert!(play.steps().await.is_empty());
        play.find(&[kind("g", "things")]);
        assert_eq!(play.steps().await, ["start things.v1.g in 'a'"]);
        play.find(&[kind("g", "things"), kind("g", "others")]);
        assert!(play.steps().await.is_empty());
        play.find(&[kind("g", "others")]);
        assert_eq!(play.steps().await, ["end things.v1.g in 'a'"]);
        play.find(&[kind("g", "things")]);
        assert_eq!(play.steps().await, ["start things.v1.g in 'a'"]);
    }

    #[tokio::test(start_paused = true)]
    async fn changed_details_of_a_resource_restart_its_stream() {
        let play = Play::new(&["things"]);
        play.serve(&["a"]);
        play.find(&[kind("g", "things")]);
        play.steps().await;
        let things = Resource {
            subresources: ["status".to_owned()].into(),
            ..kind("g", "things")
        };
        play.find(&[things]);
        assert_eq!(
            play.steps().await,
            ["end things.v1.g in 'a'", "start things.v1.g in 'a'"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_ends_unexpectedly_is_an_error() {
        for plural in ["endings", "panics"] {
            let play = Play::new(&[plural, "things"]);
            play.serve(&["a"]);
            play.find(&[kind("g", plural), kind("g", "things")]);
            let steps = Arc::clone(&play.steps);
            let error = play.outcome().await.unwrap_err().to_string();
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
        let play = Play::new(&["things"]);
        play.serve(&["a"]);
        let missing = "Unresolved resources cannot be served (try creating their CRDs): \
                       name=\"things\"";
        for (kinds, warnings) in [
            (vec![], 1),
            (vec![kind("g", "others")], 1),
            (vec![kind("g", "things")], 1),
            (vec![], 2),
        ] {
            play.find(&kinds);
            play.steps().await;
            assert_eq!(captured.messages(Level::WARN), vec![missing; warnings]);
        }
    }

    fn nothing_indexed() -> (Barrier, Blocker) {
        let barrier = Barrier::default();
        (barrier.clone(), barrier.block())
    }
}
