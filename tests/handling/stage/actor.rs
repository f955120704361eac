//! Operators of tests: built, started, stopped, killed, restarted.

use std::sync::Arc;

use kopf_client::Client;
use kopf_core::lifecycle::Lifecycle;
use kopf_core::namespace::{NamespacePattern, Scope};
use kopf_core::settings::Settings;
use kopf_core::sync::Mutex;
use kopf_core::wording::Style;
use kopf_engine::Operator;
use kopf_engine::inspect::Inspect;
use kopf_engine::invocation::Heartbeat;
use kopf_engine::operator::Declarations;
use kopf_testing::recording::Line;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::altering::{Alteration, altered};
use super::{Kind, Stage};
use crate::front::{Declaration, EventLoop, FrontendState, Notebook, indices, registry};

/// A builder of an operator.
#[must_use = "an operator does nothing until `.start().await`"]
pub(crate) struct Setup<'a> {
    pub(crate) stage: &'a Stage,
    handlers: Vec<Declaration>,
    settings: Settings,
    lifecycle: Option<Arc<dyn Lifecycle>>,
    identity: Option<String>,
    scope: Option<Scope>,
    notes: Notebook,
    is_probed: bool,
    heartbeat: Option<Arc<dyn Heartbeat>>,
    declares_late: bool,
    keeps_managed_fields: bool,
    style: Style,
    alteration: Option<Alteration>,
}

impl<'a> Setup<'a> {
    pub(super) fn new(stage: &'a Stage, handlers: Vec<Declaration>) -> Self {
        let mut settings = Settings::default();
        // The default of the original. Tests of posting enable it.
        settings.posting.loggers = false;
        // Ignores peerings that exist on a shared server.
        settings.peering.standalone = true;
        Self {
            stage,
            handlers,
            settings,
            lifecycle: None,
            identity: None,
            scope: None,
            notes: Notebook::default(),
            is_probed: false,
            heartbeat: None,
            declares_late: false,
            keeps_managed_fields: false,
            style: Style::default(),
            alteration: None,
        }
    }

    /// Changes the settings.
    pub(crate) fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Sets the lifecycle.
    pub(crate) fn lifecycle(mut self, lifecycle: impl Lifecycle + 'static) -> Self {
        self.lifecycle = Some(Arc::new(lifecycle));
        self
    }

    /// Joins peerings under this name.
    pub(crate) fn peer(mut self, identity: &str, priority: i64) -> Self {
        self.settings.peering.standalone = false;
        self.settings.peering.priority = priority;
        self.identity = Some(identity.to_owned());
        self
    }

    /// Serves probes at a free port.
    pub(crate) fn probed(mut self) -> Self {
        self.is_probed = true;
        self
    }

    /// Sets the heartbeat of the frontend for health probes.
    pub(crate) fn heartbeat(mut self, heartbeat: impl Heartbeat + 'static) -> Self {
        self.heartbeat = Some(Arc::new(heartbeat));
        self
    }

    /// Alters the payload of every patch before it is sent.
    pub(crate) fn altering(mut self, alteration: Alteration) -> Self {
        self.alteration = Some(alteration);
        self
    }

    /// Declares only startup handlers before the startup and the others after it.
    pub(crate) fn declares_late(mut self) -> Self {
        self.declares_late = true;
        self
    }

    /// Keeps `metadata.managedFields`.
    pub(crate) fn keeps_managed_fields(mut self) -> Self {
        self.keeps_managed_fields = true;
        self
    }

    /// Logs in the native style.
    pub(crate) fn native_style(mut self) -> Self {
        self.style = Style::Native;
        self
    }

    /// Sets the scope. The default is the namespace of the test.
    pub(crate) fn scope(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Sets the initial memo of the operator.
    pub(crate) fn notes(mut self, notes: serde_json::Value) -> Self {
        self.notes = Notebook(notes.as_object().cloned().unwrap_or_default());
        self
    }

    /// Starts the operator and waits until it watches.
    pub(crate) async fn start(self) -> Actor<'a> {
        let actor = Actor {
            setup: self,
            running: Mutex::default(),
        };
        actor.start().await;
        actor
    }

    /// Runs the operator until it fails, and returns the error.
    pub(crate) async fn fails(self) -> String {
        let stage = self.stage;
        let (service, _line) = stage.recorder.record(stage.api.client().clone());
        let client = Client::from_service(service, "default");
        let run = self.operator().run(client, CancellationToken::new());
        let ended = stage.within("the operator to end", run).await;
        format!(
            "{:?}",
            ended.expect_err("the operator ended without an error")
        )
    }

    fn operator(&self) -> Operator {
        let event_loop = EventLoop::start();
        let frontend = FrontendState::new(
            self.stage.journal.clone(),
            self.stage.recorder.clone(),
            event_loop.clone(),
        );
        let group = self.stage.api.group();
        let indices = indices(&self.handlers);
        self.stage.keep(indices.clone());
        let all = registry(&self.handlers, &group, &frontend);
        let operator = if self.declares_late {
            let startup: Vec<_> = self.handlers.iter().filter(|h| h.is_startup()).collect();
            let startup = registry(startup, &group, &frontend);
            let declared = Declarations::new(all, indices);
            Operator::new(startup).declare_after_startup(|_| Ok(declared))
        } else {
            Operator::new(all).indices(indices)
        };
        let mut operator = operator
            .settings(self.settings.clone())
            .front(Arc::new(frontend))
            .memos(Arc::new(self.notes.clone()))
            .clock(self.stage.clock)
            .keep_managed_fields(self.keeps_managed_fields)
            .style(self.style)
            .scope(self.served());
        if let Some(event_loop) = event_loop {
            operator = operator.host(Arc::new(event_loop));
        }
        if let Some(identity) = &self.identity {
            operator = operator.identity(identity);
        }
        if self.is_probed {
            let endpoint = "http://127.0.0.1:0/healthz".parse();
            operator = operator.liveness(endpoint.expect("the address is valid"));
        }
        if let Some(heartbeat) = &self.heartbeat {
            operator = operator.heartbeat(Arc::clone(heartbeat));
        }
        if let Some(lifecycle) = &self.lifecycle {
            operator = operator.lifecycle(Arc::clone(lifecycle));
        }
        operator
    }

    fn served(&self) -> Scope {
        if let Some(scope) = &self.scope {
            return scope.clone();
        }
        if self.stage.kind == Kind::Cluster {
            return Scope::Cluster;
        }
        let namespace = NamespacePattern::parse(self.stage.api.namespace())
            .expect("the namespace of a test is a valid pattern");
        Scope::Namespaces(vec![namespace])
    }
}

/// An operator that was started at least once. It is killed when dropped.
pub(crate) struct Actor<'a> {
    setup: Setup<'a>,
    running: Mutex<Option<Running>>,
}

struct Running {
    inspect: Inspect,
    stop: CancellationToken,
    line: Line,
    task: JoinSet<Result<(), String>>,
}

impl Actor<'_> {
    /// Starts the operator (again), like a new process.
    pub(crate) async fn start(&self) {
        let stage = self.setup.stage;
        let mut client = stage.api.client().clone();
        if let Some(alteration) = self.setup.alteration {
            client = altered(client, alteration);
        }
        let (service, line) = stage.recorder.record(client);
        let client = Client::from_service(service, "default");
        let (ready, is_ready) = oneshot::channel();
        let operator = self.setup.operator().on_ready(ready);
        let inspect = operator.inspect();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let outcome = operator.run(client, stopped).await;
            outcome.map_err(|error| format!("{error:?}"))
        });
        stage
            .within("the operator to be ready", async {
                tokio::select! {
                    Ok(()) = is_ready => {}
                    ended = task.join_next() => panic!("the operator did not start: {ended:?}"),
                }
            })
            .await;
        stage.inspects.lock().push(inspect.clone());
        let running = Running {
            inspect,
            stop,
            line,
            task,
        };
        *self.running.lock() = Some(running);
    }

    /// Stops the operator and waits until it has ended.
    pub(crate) async fn stop(&self) {
        if let Some(mut running) = self.take() {
            running.stop.cancel();
            let ended = running.task.join_next();
            let ended = self.setup.stage.within("the operator to stop", ended).await;
            assert!(matches!(ended, Some(Ok(Ok(())))), "{ended:?}");
        }
    }

    /// Kills the operator: it sends no further requests.
    pub(crate) async fn kill(&self) {
        if let Some(mut running) = self.take() {
            running.line.cut();
            running.task.shutdown().await;
        }
    }

    /// Stops the operator and starts it again.
    pub(crate) async fn restart(&self) {
        self.stop().await;
        self.start().await;
    }

    /// Returns the inspection handle of the running operator.
    pub(crate) fn inspect(&self) -> Inspect {
        let running = self.running.lock();
        let running = running.as_ref().expect("the operator is running");
        running.inspect.clone()
    }

    fn take(&self) -> Option<Running> {
        let running = self.running.lock().take();
        // A killed operator does not settle by itself.
        self.setup.stage.inspects.lock().clear();
        running
    }
}
