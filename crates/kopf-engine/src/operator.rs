//! One operator: its parts, the tree of its tasks, and the order in which they end.
//!
//! ```text
//! startup handlers
//!  │
//! run ─┬─ Resource observer                kinds ────────┐
//!      ├─ Namespace observer               namespaces ───┤
//!      ├─ Multidimensional multitasker ◄─────────────────┘ streams ── workers ── handlers
//!      ├─ Daemon killer ──► daemons and timers
//!      ├─ Poster of events ◄── events of objects
//!      ├─ Admission webhook server ──► handlers          only if there is one
//!      ├─ Admission configuration managers               only if they are managed
//!      └─ Credentials retriever            only if it was given no client
//!  │
//! cleanup handlers
//! ```
//!
//! An operator knows nothing of processes and signals: it runs until its token is cancelled, or
//! until it cannot go on. Several operators can run in one process.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use kopf_client::Client;
use kopf_core::handler::{HandlerId, HandlerKind};
use kopf_core::lifecycle::{Asap, Lifecycle};
use kopf_core::namespace::Scope;
use kopf_core::settings::Settings;
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use crate::activities;
use crate::admission::{self, Memos, Webhooks};
use crate::authentication::{Access, Authentication, LoginError};
use crate::background::{Fleet, killer};
use crate::clock::Clock;
use crate::execution::BlockingPool;
use crate::indexing::{Barrier, Indices};
use crate::inspect::Inspect;
use crate::invocation::{OperatorContext, Registry};
use crate::memos::{MemoCell, MemoFactory};
use crate::namesakes;
use crate::observation::{NamespaceObserver, ResourceObserver, insights, wanted_groups};
use crate::orchestration;
use crate::pausing::Pause;
use crate::peering::{detect_own_identity, with_peerings};
use crate::posting::{self, Poster};
use crate::probing::{self, Endpoint};
use crate::processing::describe;
use crate::queueing::Turns;
use crate::root::{POSTER, RETRIEVER, Root};
use crate::shared::Shared;

/// How many blocking daemons run at once, if the settings do not say.
const DAEMON_THREADS: usize = 512;

/// Why an operator has ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There are no handlers.
    #[error("no handlers are registered, there is nothing to do for the operator")]
    NoHandlers,
    /// A front has declared a handler of an index, and not given the index.
    #[error("there is nothing to keep the entries of the index '{id}' in")]
    NoIndex {
        /// The id of the handler.
        id: HandlerId,
    },
    /// The settings make no sense.
    #[error("the operator cannot run with these settings")]
    Settings(#[from] kopf_core::settings::Error),
    /// The progress of a handler could never be stored.
    #[error("a handler cannot be registered")]
    Handler(#[source] kopf_core::storage::StorageError),
    /// Handlers of the operator's own life have failed for good.
    #[error(transparent)]
    Activity(#[from] activities::Error),
    /// There are no credentials for the API, and there will not be any.
    #[error("the operator cannot log in")]
    Login(#[source] LoginError),
    /// The server does not tell what kinds it has.
    #[error("the resources of the cluster cannot be discovered")]
    Discovery(#[source] Box<kopf_client::Error>),
    /// Nobody can be answered at the address for probes.
    #[error("probes cannot be answered at {endpoint}")]
    Probing {
        /// The address.
        endpoint: Endpoint,
        /// What is wrong with it.
        #[source]
        source: std::io::Error,
    },
    /// There can be no webhooks.
    #[error(transparent)]
    Admission(#[from] admission::Error),
    /// A stream has ended without being stopped.
    #[error("streaming has failed")]
    Streaming(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A task has ended without being stopped.
    #[error("{task} has finished unexpectedly")]
    Finished {
        /// The name of the task.
        task: &'static str,
    },
    /// A task has panicked.
    #[error("{task} has crashed")]
    Crashed {
        /// The name of the task.
        task: &'static str,
        /// What is known of it.
        #[source]
        source: JoinError,
    },
}

/// What an operator is made of, before it runs.
#[must_use]
pub struct Operator {
    registry: Registry,
    settings: Settings,
    scope: Scope,
    lifecycle: Arc<dyn Lifecycle>,
    front: Arc<dyn Any + Send + Sync>,
    indices: Indices,
    memo: MemoCell,
    clock: Option<Clock>,
    inspect: Inspect,
    ready: Option<oneshot::Sender<()>>,
    identity: Option<String>,
    liveness: Option<Endpoint>,
}

impl Operator {
    /// An operator with these handlers: cluster-wide, with default settings.
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
            settings: Settings::default(),
            scope: Scope::Cluster,
            lifecycle: Arc::new(Asap),
            front: Arc::new(()),
            indices: Indices::default(),
            memo: MemoCell::of_operator(Arc::new(())),
            clock: None,
            inspect: Inspect::default(),
            ready: None,
            identity: None,
            liveness: None,
        }
    }

    /// With these settings.
    pub fn settings(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    /// In these namespaces, or in all of them.
    pub fn scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// With this choice of handlers in every cycle; by default, the one with the fewest attempts.
    pub fn lifecycle(self, lifecycle: Arc<dyn Lifecycle>) -> Self {
        Self { lifecycle, ..self }
    }

    /// With something of the front that goes to every call.
    pub fn front(self, front: Arc<dyn Any + Send + Sync>) -> Self {
        Self { front, ..self }
    }

    /// With these indices, one for the id of each handler that keeps one.
    pub fn indices(self, indices: Indices) -> Self {
        Self { indices, ..self }
    }

    /// With memos that are made like this; by default, there is nothing in them.
    pub fn memos(self, factory: Arc<dyn MemoFactory>) -> Self {
        let memo = MemoCell::of_operator(factory);
        Self { memo, ..self }
    }

    /// With this time; by default, that of the system when it starts to run.
    pub fn clock(self, clock: Clock) -> Self {
        Self {
            clock: Some(clock),
            ..self
        }
    }

    /// Tells when all streams for what is in the cluster at first are started.
    pub fn on_ready(self, ready: oneshot::Sender<()>) -> Self {
        Self {
            ready: Some(ready),
            ..self
        }
    }

    /// With this name among its peers; by default, that of its pod (`POD_ID`), or one that is made of
    /// the person, the machine and the time.
    pub fn identity(self, identity: impl Into<String>) -> Self {
        Self {
            identity: Some(identity.into()),
            ..self
        }
    }

    /// Answers probes at this address.
    pub fn liveness(self, endpoint: Endpoint) -> Self {
        Self {
            liveness: Some(endpoint),
            ..self
        }
    }

    /// A window into the operator when it runs.
    pub fn inspect(&self) -> Inspect {
        self.inspect.clone()
    }

    /// Runs until it is stopped or cannot go on.
    ///
    /// # Flow
    ///
    /// With a client, that is used, and login handlers are not called. Otherwise, it logs in after
    /// the startup, and whenever there are no credentials left.
    ///
    /// 1. The startup handlers are called: nothing else happens before they have succeeded. The
    ///    settings are as they have left them from then on.
    /// 2. The kinds and the namespaces of the cluster are discovered, and observed from then on.
    /// 3. Every served kind in every served namespace gets a stream, unless other operators are to
    ///    be waited for.
    /// 4. When it is stopped, or any of its tasks fails: the streams let running handlers end for
    ///    as long as `queueing.exit_timeout` says; webhooks are taken back; then other operators may
    ///    go on; then posting of events and the webhook server end; what still does not end is given up after 5 seconds.
    /// 5. The cleanup handlers are called, also after an error. Only if the startup has failed, or
    ///    was stopped before its end, there is nothing to clean up.
    ///
    /// # Errors
    ///
    /// The first thing that made it end, if it was not stopped; or the failure of cleanup handlers.
    ///
    /// # Cancellation
    ///
    /// Dropping the future aborts everything at once, except for blocking handlers that run. The
    /// cleanup handlers are not called then.
    pub async fn run(
        mut self,
        access: impl Into<Access>,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let access = access.into();
        let _life = self.inspect.vitals().live();
        debug!("Starting Kopf {}.", env!("CARGO_PKG_VERSION"));
        if self.registry.is_empty() {
            return Err(Error::NoHandlers);
        }
        self.settings.peering.clusterwide = matches!(self.scope, Scope::Cluster);
        for handler in self.registry.handlers() {
            if handler.kind == HandlerKind::Index && self.indices.get(&handler.id).is_none() {
                let id = Arc::clone(&handler.id);
                return Err(Error::NoIndex { id });
            }
        }
        self.settings.validate()?;
        namesakes::warn(&self.registry);
        let clock = *self.clock.get_or_insert_with(Clock::system);
        let authentication = Authentication::new(access, &self.registry, clock);
        let client = authentication.client().clone();
        let context = OperatorContext::new(
            client.clone(),
            Arc::new(self.settings),
            clock,
            Arc::clone(&self.front),
        )
        .with_indices(self.indices.clone())
        .with_memo(self.memo.clone());
        let starting = activities::startup(&self.registry, context.clone());
        let Some(started) = stop.run_until_cancelled(starting).await else {
            warn!("Startup activity is only partially executed due to cancellation.");
            return Ok(());
        };
        self.settings = started?;
        let valid = self.settings.validate().map_err(Error::from);
        let valid = valid
            .and_then(|()| check_ids(&self.registry, &self.settings))
            .and_then(|()| Ok(admission::check(&self.registry, &self.settings.admission)?));
        if let Err(error) = valid {
            // What the startup has opened is to be closed, also if it has led nowhere.
            if let Err(second) = activities::cleanup(&self.registry, &Arc::new(context)).await {
                error!("{}", describe(&second));
            }
            return Err(error);
        }

        let inspect = self.inspect.clone();
        let mut root = Root::default();
        let shared = self.start(&client, clock, &mut root);
        if let Some(retriever) = authentication.retriever(&shared.context) {
            root.spawn(RETRIEVER, root.halt_last.clone(), async move {
                Err(Error::Login(retriever.await))
            });
        }
        let outcome = tokio::select! {
            () = stop.cancelled() => Ok(()),
            error = root.failure() => Err(error),
        };
        inspect.set_stopping();
        root.stop().await;
        let cleaned = activities::cleanup(&shared.registry, &shared.context).await;
        match (outcome, cleaned) {
            (Err(first), Err(second)) => {
                error!("{second}");
                Err(first)
            }
            (outcome, cleaned) => Ok(outcome.and(cleaned.map_err(Error::from))?),
        }
    }

    fn start(self, client: &Client, clock: Clock, root: &mut Root) -> Arc<Shared> {
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
            turns: Turns::new(settings.networking.concurrency),
            pool: BlockingPool::new(settings.execution.max_workers),
            daemon_pool: BlockingPool::new(Some(
                settings.execution.max_workers.unwrap_or(DAEMON_THREADS),
            )),
            fleet: Fleet::new(root.halt.clone()),
            pause: Pause::default(),
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
        shared
            .inspect
            .vitals()
            .begin(settings.watching.inactivity_timeout);
        if let Some(endpoint) = self.liveness {
            let (shared, halt) = (Arc::clone(&shared), root.halt.clone());
            root.spawn_graceful("Health reporter", async move {
                let serving = probing::serve(shared, endpoint.clone(), halt).await;
                serving.map_err(|source| Error::Probing { endpoint, source })
            });
        }
        if let Some(webhooks) = Webhooks::new(&shared, &insights) {
            root.spawn_webhooks(webhooks);
        }
        let halt = root.halt.clone();
        let pools = [shared.pool.clone(), shared.daemon_pool.clone()];
        let streamed = Arc::clone(&shared);
        let identity = self.identity.unwrap_or_else(|| detect_own_identity(clock));
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

/// Handlers of changes need a place for their progress.
fn check_ids(registry: &Registry, settings: &Settings) -> Result<(), Error> {
    let storage = &settings.persistence.progress_storage;
    let handlers = registry.handlers().iter();
    let mut ids = handlers.filter(|handler| handler.kind.is_change());
    ids.try_for_each(|handler| storage.check_id(&handler.id))
        .map_err(Error::Handler)
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator")
            .field("handlers", &self.registry.handlers().len())
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kopf_core::handler::{FunctionId, HandlerKind, HandlerSpec};
    use kopf_core::selector::Selector;
    use serde_json::json;
    use tracing::Level;

    use super::*;
    use crate::captured::capture;
    use crate::fake_api::{Answer, Asked, discover, kind, serve};
    use crate::invocation::{Call, Invoke, Work};

    struct Nothing;

    impl Invoke for Nothing {
        fn invoke(&self, _: Call) -> Work {
            Work::Async(Box::pin(async { Ok(None) }))
        }
    }

    fn operator() -> Operator {
        let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), HandlerKind::Event);
        spec.selector = Some(Selector::parse(&["things.one"]).unwrap());
        let mut registry = Registry::default();
        registry.add(spec.build(Arc::new(Nothing) as _).unwrap());
        Operator::new(registry)
    }

    /// A cluster with one empty kind, whose streams never say anything.
    fn quiet(asked: &Asked) -> Answer {
        if asked.is_watch() {
            return Answer::Never;
        }
        discover(asked, &[kind("one", "things")]).unwrap_or_else(|| {
            Answer::Json(
                200,
                json!({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}),
            )
        })
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_without_handlers_is_refused() {
        let (client, log) = serve(quiet);
        let operator = Operator::new(Registry::default());
        let outcome = operator.run(client, CancellationToken::new()).await;
        assert!(matches!(outcome, Err(Error::NoHandlers)), "{outcome:?}");
        assert!(log.all().is_empty());
    }

    #[test]
    fn it_can_run_in_any_task() {
        fn check<T: Send + 'static>(_: T) {}
        let (client, _) = serve(quiet);
        check(operator().run(client, CancellationToken::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn senseless_settings_are_refused() {
        let (client, log) = serve(quiet);
        let mut settings = Settings::default();
        settings.queueing.max_events = 0;
        let operator = operator().settings(settings);
        let outcome = operator.run(client, CancellationToken::new()).await;
        assert!(matches!(outcome, Err(Error::Settings(_))), "{outcome:?}");
        assert!(log.all().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn handlers_whose_progress_cannot_be_stored_are_refused() {
        let (client, log) = serve(quiet);
        let registry = |kind| -> Registry {
            let mut spec = HandlerSpec::new("my handler", FunctionId::Number(1), kind);
            spec.selector = Some(Selector::parse(&["things.one"]).unwrap());
            let handler = spec.build(Arc::new(Nothing) as _).unwrap();
            [handler].into_iter().collect()
        };
        let operator = Operator::new(registry(HandlerKind::Create));
        let outcome = operator.run(client.clone(), CancellationToken::new()).await;
        let Err(Error::Handler(error)) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(error.to_string().contains("\"my handler\""), "{error}");
        assert!(log.all().is_empty());

        // Neither for events nor in the status there is a reason to refuse it.
        let stop = CancellationToken::new();
        stop.cancel();
        let operator = Operator::new(registry(HandlerKind::Event));
        operator.run(client.clone(), stop.clone()).await.unwrap();
        let mut settings = Settings::default();
        let status = kopf_core::progress::StatusProgressStorage::default();
        settings.persistence.progress_storage = Arc::new(status);
        let operator = Operator::new(registry(HandlerKind::Create)).settings(settings);
        operator.run(client, stop).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn it_runs_until_it_is_stopped() {
        let captured = capture(Level::DEBUG);
        let (client, log) = serve(quiet);
        let (told, ready) = oneshot::channel();
        let operator = operator().on_ready(told);
        let inspect = operator.inspect();
        let stop = CancellationToken::new();
        let stopping = async {
            ready.await.unwrap();
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            assert_eq!(inspect.snapshot().streams, 1);
            stop.cancel();
        };
        let (outcome, ()) = tokio::join!(operator.run(client, stop.clone()), stopping);
        outcome.unwrap();
        assert_eq!(inspect.snapshot().streams, 0);
        assert_eq!(log.count("/apis/one/v1/things"), 1);

        let ended: Vec<_> = captured
            .messages(Level::DEBUG)
            .into_iter()
            .filter(|message| message.ends_with("is cancelled."))
            .collect();
        assert_eq!(ended.len(), 4, "{ended:?}");
        assert_eq!(
            ended[3], "Poster of events is cancelled.",
            "after the streams"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_it_cannot_do_without_ends_it() {
        let captured = capture(Level::ERROR);
        let (client, _) = serve(|_| Answer::status(403));
        let outcome = operator().run(client, CancellationToken::new()).await;
        let Err(Error::Discovery(error)) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(error.is_forbidden());
        assert_eq!(captured.messages(Level::ERROR).len(), 1);
    }

    /// A login with a client, as long as the list lasts.
    struct Given(std::sync::Mutex<Vec<kopf_client::vault::Credentials>>);

    impl kopf_client::vault::Login for Given {
        fn login(
            &self,
        ) -> futures::future::BoxFuture<'_, Result<kopf_client::vault::Retrieved, LoginError>>
        {
            let next = self.0.lock().unwrap().pop();
            let retrieved = next.map(|credentials| vec![("fn".to_owned(), credentials)]);
            Box::pin(async { retrieved.ok_or(LoginError::Nothing) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_client_it_logs_in_and_without_a_login_it_ends() {
        let captured = capture(Level::DEBUG);
        let (credentials, log) = crate::fake_api::credentials(quiet);
        let login = Access::Custom(Arc::new(Given(vec![credentials].into())));
        let (told, ready) = oneshot::channel();
        let stop = CancellationToken::new();
        let stopping = async {
            ready.await.unwrap();
            stop.cancel();
        };
        let operator = operator().on_ready(told);
        let (outcome, ()) = tokio::join!(operator.run(login, stop.clone()), stopping);
        outcome.unwrap();
        assert_eq!(log.count("/apis/one/v1/things"), 1);
        let ended: Vec<_> = captured
            .messages(Level::DEBUG)
            .into_iter()
            .filter(|message| message.ends_with("is cancelled."))
            .collect();
        assert_eq!(ended.len(), 5, "{ended:?}");
        let last = ended[3..].contains(&"Credentials retriever is cancelled.".to_owned());
        assert!(last, "{ended:?}");

        let (credentials, _) = crate::fake_api::credentials(|_| Answer::status(401));
        let login = Access::Custom(Arc::new(Given(vec![credentials].into())));
        let outcome = self::operator().run(login, CancellationToken::new()).await;
        assert!(
            matches!(outcome, Err(Error::Login(LoginError::Nothing))),
            "{outcome:?}"
        );
    }
}
