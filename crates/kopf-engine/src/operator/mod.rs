//! An operator: its parts, its tasks, and their shutdown order.
//!
//! ```text
//! startup handlers
//!  │
//! run ─┬─ Resource observer                resources ────┐
//!      ├─ Namespace observer               namespaces ───┤
//!      ├─ Multidimensional multitasker ◄─────────────────┘ streams ── workers ── handlers
//!      ├─ Daemon killer ──► daemons and timers
//!      ├─ Poster of events ◄── events of objects
//!      ├─ Admission webhook server ──► handlers          only if there is one
//!      ├─ Admission configuration managers               only if they are managed
//!      ├─ Permission review                              only if it is enabled
//!      └─ Credentials retriever            only without a given client
//!  │
//! cleanup handlers
//! ```
//!
//! An operator is independent of processes and signals: it runs until its token is cancelled or an
//! error ends it. Several operators can run in one process.

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
use crate::invocation::{Heartbeat, Host, OperatorContext, Registry};
use crate::memos::{MemoCell, MemoFactory};
use crate::metrics::Metrics;

use self::root::{RETRIEVER, Root};
use crate::probing::{Endpoint, Site, sites};

/// A configured operator that is not running yet.
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
    /// The addresses to listen at, resolved at the start.
    sites: Vec<Site>,
    managed_fields: ManagedFields,
    host: Option<Arc<dyn Host>>,
    heartbeat: Option<Arc<dyn Heartbeat>>,
    declare: Option<Declare>,
    definitions: Vec<Value>,
    style: Style,
}

impl Operator {
    /// Creates an operator with these handlers: cluster-wide, with default settings.
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
            heartbeat: None,
            declare: None,
            definitions: Vec::new(),
            style: Style::default(),
        }
    }

    /// Sets the settings.
    pub fn settings(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    /// Sets the namespaces to serve. Default: all.
    pub fn scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// Sets the selection of handlers for each cycle. Default: the handler with the fewest
    /// attempts.
    pub fn lifecycle(self, lifecycle: Arc<dyn Lifecycle>) -> Self {
        Self { lifecycle, ..self }
    }

    /// Sets an object of the frontend that is passed to every call.
    pub fn front(self, front: Arc<dyn Any + Send + Sync>) -> Self {
        Self { front, ..self }
    }

    /// Sets the indices, one for the id of each index handler.
    pub fn indices(self, indices: Indices) -> Self {
        Self { indices, ..self }
    }

    /// Sets the factory of memos. Default: empty memos.
    pub fn memos(self, factory: Arc<dyn MemoFactory>) -> Self {
        let memo = MemoCell::of_operator(factory);
        Self { memo, ..self }
    }

    /// Sets the clock. Default: the system clock.
    pub fn clock(self, clock: Clock) -> Self {
        Self {
            clock: Some(clock),
            ..self
        }
    }

    /// Sets a channel that is notified when the streams of the initially discovered resources are
    /// started.
    pub fn on_ready(self, ready: oneshot::Sender<()>) -> Self {
        Self {
            ready: Some(ready),
            ..self
        }
    }

    /// Sets the identity in peerings. Default: the pod (`POD_ID`), or the user, the host, the time
    /// and a random part.
    pub fn identity(self, identity: impl Into<String>) -> Self {
        Self {
            identity: Some(identity.into()),
            ..self
        }
    }

    /// Enables probes at this address.
    pub fn liveness(self, endpoint: Endpoint) -> Self {
        Self {
            liveness: Some(endpoint),
            ..self
        }
    }

    /// Serves metrics at this address instead of the address for probes.
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

    /// Sets a host of the frontend that polls the tasks of resources with callbacks. By default,
    /// the runtime polls all tasks.
    pub fn host(self, host: Arc<dyn Host>) -> Self {
        Self {
            host: Some(host),
            ..self
        }
    }

    /// Makes health probes depend on the heartbeat of the frontend.
    pub fn heartbeat(self, heartbeat: Arc<dyn Heartbeat>) -> Self {
        Self {
            heartbeat: Some(heartbeat),
            ..self
        }
    }

    /// Sets a function that replaces the handlers and indices after the startup activity, when the
    /// settings are final: startup handlers of some frontends register other handlers. The startup
    /// handlers themselves are those passed to [`new`](Self::new).
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

    /// Sets the CRDs to install if `settings.scanning.install_crds` is set.
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

    /// Returns a handle to observe the operator while it runs.
    pub fn inspect(&self) -> Inspect {
        self.inspect.clone()
    }

    /// Runs until stopped or until an error ends the operator.
    ///
    /// # Flow
    ///
    /// A given client is used without calling login handlers. Otherwise, the operator logs in after
    /// the startup and whenever no valid credentials are left.
    ///
    /// 1. The startup handlers are called. Nothing else happens before they have succeeded. They
    ///    can change the settings, which are final afterwards.
    /// 2. The resources and namespaces of the cluster are discovered and then observed.
    /// 3. A stream is started for every served resource in every served namespace, unless peering
    ///    requires a pause.
    /// 4. When the operator is stopped or any of its tasks fails: the streams wait for running
    ///    handlers for at most `queueing.exit_timeout`; webhooks are unregistered; the peer record
    ///    is removed; posting of events and the webhook server end. Remaining tasks are aborted
    ///    after 5 seconds.
    /// 5. The cleanup handlers are called, even after an error. They are not called if the startup
    ///    has failed or was cancelled.
    ///
    /// # Errors
    ///
    /// The first error that ended the operator, or the failure of a cleanup handler.
    ///
    /// # Cancellation
    ///
    /// Dropping the future aborts all tasks immediately, except for running blocking handlers. The
    /// cleanup handlers are not called.
    pub async fn run(
        mut self,
        access: impl Into<Access>,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let _run_guard = self.inspect.health_tracker().mark_running();
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
            // Resources that the startup handlers have opened are always closed.
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
        .with_heartbeat(self.heartbeat.clone())
        .with_metrics(self.metrics())
        .with_style(self.style)
    }

    /// Takes over the handlers that were declared during the startup, and validates all handlers.
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
        if let Some(id) = duplicate_ids::shared_with_reconciliation(&self.registry) {
            return Err(Error::SharedId { id });
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
    /// Creates the declarations.
    pub fn new(registry: Registry, indices: Indices) -> Self {
        Self { registry, indices }
    }
}

type Declare = Box<dyn FnOnce(&Settings) -> Result<Declarations, BoxError> + Send>;

/// Checks that the progress of handlers can be stored under their ids.
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
