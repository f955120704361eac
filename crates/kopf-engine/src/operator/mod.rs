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
//!      ├─ Permission review                              only if it is enabled
//!      └─ Credentials retriever            only if it was given no client
//!  │
//! cleanup handlers
//! ```
//!
//! An operator knows nothing of processes and signals: it runs until its token is cancelled, or
//! until it cannot go on. Several operators can run in one process.

mod duplicate_ids;
mod error;
mod immediate_retries;
mod root;
mod starting;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use kopf_core::body::ManagedFields;
use kopf_core::handler::HandlerKind;
use kopf_core::lifecycle::{Asap, Lifecycle};
use kopf_core::namespace::Scope;
use kopf_core::patch::BoxError;
use kopf_core::settings::Settings;
use kopf_core::wording::Style;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

pub use self::error::Error;
use crate::activities;
use crate::admission;
use crate::authentication::{Access, Authentication};
use crate::clock::Clock;
use crate::errors::describe;
use crate::execution::BlockingPool;

use crate::indexing::Indices;
use crate::inspect::Inspect;
use crate::invocation::{Host, OperatorContext, Pulse, Registry};
use crate::memos::{MemoCell, MemoFactory};
use crate::metrics::Metrics;

use self::root::{RETRIEVER, Root};
use crate::probing::{Endpoint, Site, sites};

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
    metrics_endpoint: Option<Endpoint>,
    /// The addresses to listen at, known when it runs.
    sites: Vec<Site>,
    managed_fields: ManagedFields,
    host: Option<Arc<dyn Host>>,
    pulse: Option<Arc<dyn Pulse>>,
    declare: Option<Declare>,
    definitions: Vec<Value>,
    style: Style,
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
            metrics_endpoint: None,
            sites: Vec::new(),
            managed_fields: ManagedFields::default(),
            host: None,
            pulse: None,
            declare: None,
            definitions: Vec::new(),
            style: Style::default(),
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

    /// Serves metrics at this address instead of at the one for probes.
    pub fn metrics_endpoint(self, endpoint: Endpoint) -> Self {
        Self {
            metrics_endpoint: Some(endpoint),
            ..self
        }
    }

    /// Keeps `metadata.managedFields` of objects for handlers and filters, as in the original. By
    /// default they are dropped when objects arrive, which saves up to half of the memory. Essences
    /// and diffs do not contain them in any case.
    pub fn keep_managed_fields(self, keep: bool) -> Self {
        let managed_fields = if keep {
            ManagedFields::Keep
        } else {
            ManagedFields::Drop
        };
        Self {
            managed_fields,
            ..self
        }
    }

    /// Has the tasks of resources with callbacks polled by the front. By default, all tasks are
    /// polled by the runtime.
    pub fn host(self, host: Arc<dyn Host>) -> Self {
        Self {
            host: Some(host),
            ..self
        }
    }

    /// Has health probes require signs of life of the front.
    pub fn pulse(self, pulse: Arc<dyn Pulse>) -> Self {
        Self {
            pulse: Some(pulse),
            ..self
        }
    }

    /// Replaces the handlers and the indices after the startup activity, when the settings are
    /// known: startup handlers of some fronts register other handlers. The startup handlers
    /// themselves are those that the operator was created with.
    ///
    /// ```
    /// use kopf_engine::Operator;
    /// use kopf_engine::indexing::Indices;
    /// use kopf_engine::invocation::Registry;
    /// use kopf_engine::operator::Declarations;
    ///
    /// let startup = Registry::default();
    /// let operator = Operator::new(startup).declare_after_startup(|_settings| {
    ///     Ok(Declarations::new(Registry::default(), Indices::default()))
    /// });
    /// ```
    pub fn declare_after_startup(
        self,
        declare: impl FnOnce(&Settings) -> Result<Declarations, BoxError> + Send + 'static,
    ) -> Self {
        Self {
            declare: Some(Box::new(declare)),
            ..self
        }
    }

    /// With these CRDs, to be installed if `settings.scanning.install_crds` is set.
    pub fn definitions(self, definitions: Vec<Value>) -> Self {
        Self {
            definitions,
            ..self
        }
    }

    /// Sets the style of log messages. Default: that of the original.
    pub fn style(self, style: Style) -> Self {
        Self { style, ..self }
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
        let _life = self.inspect.vitals().live();
        let _running = self.inspect.set_runtime(Handle::current());
        debug!("Starting Kopf {}.", env!("CARGO_PKG_VERSION"));
        self.settings.peering.clusterwide = matches!(self.scope, Scope::Cluster);
        if self.declare.is_none() {
            self.check_handlers()?;
        }
        self.sites = sites(self.liveness.take(), self.metrics_endpoint.take())
            .map_err(|endpoint| Error::SameEndpoint { endpoint })?;
        self.settings.validate()?;
        self.settings.normalize();
        let clock = *self.clock.get_or_insert_with(Clock::system);
        let authentication = Authentication::new(access.into(), clock);
        let mut context = self.context(&authentication, clock);
        let starting = activities::startup(&self.registry, context.clone());
        let Some(started) = stop.run_until_cancelled(starting).await else {
            self.inspect.set_stopping();
            warn!("Startup activity is only partially executed due to cancellation.");
            context.leftovers.settle().await;
            return Ok(());
        };
        self.settings = started?;
        self.settings.normalize();
        let pool = BlockingPool::new(self.settings.execution.max_workers);
        let registry = self.registry.clone();
        if let Err(error) = self.settle_declarations(&mut context) {
            // Resources that the startup handlers have opened are closed in any case.
            if let Err(second) = activities::cleanup(&registry, &Arc::new(context), &pool).await {
                error!("{}", describe(&second));
            }
            return Err(error);
        }
        self.settle_metrics(&mut context);
        let inspect = self.inspect.clone();
        let mut root = Root::default();
        let shared = self.start(&context, pool, &mut root);
        let pool = &shared.executor.pool;
        if let Some(retriever) = authentication.retriever(&shared.context, &shared.registry, pool) {
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
        shared.context.leftovers.settle().await;
        let pool = &shared.executor.pool;
        let cleaned = activities::cleanup(&shared.registry, &shared.context, pool).await;
        match (outcome, cleaned) {
            (Err(first), Err(second)) => {
                error!("{second}");
                Err(first)
            }
            (outcome, cleaned) => Ok(outcome.and(cleaned.map_err(Error::from))?),
        }
    }

    /// Returns the metrics of the startup handlers.
    fn metrics(&self) -> Metrics {
        let metrics = if self.settings.process.metrics {
            Metrics::new()
        } else {
            Metrics::default()
        };
        metrics.declare(&self.registry);
        metrics
    }

    /// Adjusts the metrics to the settings and handlers after the startup.
    fn settle_metrics(&self, context: &mut OperatorContext) {
        if self.settings.process.metrics == context.metrics.is_on() {
            context.metrics.declare(&self.registry);
        } else {
            context.metrics = self.metrics();
        }
        self.inspect.set_metrics(context.metrics.clone());
    }

    /// Returns the context of the startup handlers.
    fn context(&self, authentication: &Authentication, clock: Clock) -> OperatorContext {
        OperatorContext::new(
            authentication.client().clone(),
            Arc::new(self.settings.clone()),
            clock,
            Arc::clone(&self.front),
        )
        .with_indices(self.indices.clone())
        .with_memo(self.memo.clone())
        .with_managed_fields(self.managed_fields)
        .with_host(self.host.clone())
        .with_pulse(self.pulse.clone())
        .with_metrics(self.metrics())
        .with_style(self.style)
    }

    /// Takes the handlers over that were declared during the startup, and checks everything.
    fn settle_declarations(&mut self, context: &mut OperatorContext) -> Result<(), Error> {
        self.settings.validate()?;
        if let Some(declare) = self.declare.take() {
            let declared = declare(&self.settings).map_err(Error::Declaration)?;
            self.registry = declared.registry;
            self.indices = declared.indices;
            context.indices = self.indices.clone();
            self.check_handlers()?;
        }
        check_ids(&self.registry, &self.settings)?;
        admission::check(&self.registry, &self.settings.admission)?;
        immediate_retries::warn(&self.registry, &self.settings);
        Ok(())
    }

    fn check_handlers(&self) -> Result<(), Error> {
        if self.registry.is_empty() {
            warn!("No handlers are registered: the operator has nothing to do.");
        }
        for handler in self.registry.handlers() {
            if handler.kind == HandlerKind::Index && self.indices.get(&handler.id).is_none() {
                let id = Arc::clone(&handler.id);
                return Err(Error::NoIndex { id });
            }
        }
        duplicate_ids::warn(&self.registry);
        Ok(())
    }
}

/// Handlers and indices that are declared during the startup.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Declarations {
    /// All handlers.
    pub registry: Registry,
    /// One index for the id of each index handler.
    pub indices: Indices,
}

impl Declarations {
    /// Joins the parts.
    pub fn new(registry: Registry, indices: Indices) -> Self {
        Self { registry, indices }
    }
}

type Declare = Box<dyn FnOnce(&Settings) -> Result<Declarations, BoxError> + Send>;

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
