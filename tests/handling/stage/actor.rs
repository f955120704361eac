//! An operator in a case: prepared, started, stopped, killed, started again.

use std::sync::Arc;

use kopf_client::Client;
use kopf_core::lifecycle::Lifecycle;
use kopf_core::namespace::{NamespacePattern, Scope};
use kopf_core::settings::Settings;
use kopf_core::sync::Mutex;
use kopf_core::wording::Style;
use kopf_engine::Operator;
use kopf_engine::inspect::Inspect;
use kopf_engine::invocation::Pulse;
use kopf_engine::operator::Declarations;
use kopf_testing::recording::Line;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::altering::{Alteration, altered};
use super::{Kind, Stage};
use crate::front::{Declaration, EventLoop, Notebook, Witness, indices, registry};

/// An operator to be started.
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
    pulse: Option<Arc<dyn Pulse>>,
    declares_late: bool,
    keeps_managed_fields: bool,
    style: Style,
    alteration: Option<Alteration>,
}

impl<'a> Setup<'a> {
    pub(super) fn new(stage: &'a Stage, handlers: Vec<Declaration>) -> Self {
        let mut settings = Settings::default();
        // As the original does by default; cases about posting switch it on.
        settings.posting.loggers = false;
        // Nobody else is to be asked, even if somebody has defined peerings on a shared server.
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
            pulse: None,
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

    /// Another lifecycle than the default one.
    pub(crate) fn lifecycle(mut self, lifecycle: impl Lifecycle + 'static) -> Self {
        self.lifecycle = Some(Arc::new(lifecycle));
        self
    }

    /// Takes part in peerings under this name.
    pub(crate) fn peer(mut self, identity: &str, priority: i64) -> Self {
        self.settings.peering.standalone = false;
        self.settings.peering.priority = priority;
        self.identity = Some(identity.to_owned());
        self
    }

    /// It answers probes, at some free port.
    pub(crate) fn probed(mut self) -> Self {
        self.is_probed = true;
        self
    }

    /// Health probes require these signs of life.
    pub(crate) fn pulse(mut self, pulse: impl Pulse + 'static) -> Self {
        self.pulse = Some(Arc::new(pulse));
        self
    }

    /// Alters the payload of every patch on its way to the server.
    pub(crate) fn altering(mut self, alteration: Alteration) -> Self {
        self.alteration = Some(alteration);
        self
    }

    /// Only startup handlers are declared before the startup, the others after it.
    pub(crate) fn declares_late(mut self) -> Self {
        self.declares_late = true;
        self
    }

    /// Handlers see `metadata.managedFields`.
    pub(crate) fn keeps_managed_fields(mut self) -> Self {
        self.keeps_managed_fields = true;
        self
    }

    /// Logs in the style of the Rust front.
    pub(crate) fn native_style(mut self) -> Self {
        self.style = Style::Native;
        self
    }

    /// Another scope than the namespace of the case.
    pub(crate) fn scope(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// What the operator remembers at first.
    pub(crate) fn notes(mut self, notes: serde_json::Value) -> Self {
        self.notes = Notebook(notes.as_object().cloned().unwrap_or_default());
        self
    }

    /// Starts it, and waits until it watches.
    pub(crate) async fn start(self) -> Actor<'a> {
        let actor = Actor {
            setup: self,
            running: Mutex::default(),
        };
        actor.start().await;
        actor
    }

    /// Runs it to its end, which is an error: that is returned.
    pub(crate) async fn fails(self) -> String {
        let stage = self.stage;
        let (service, _line) = stage.recorder.record(stage.api.client().clone());
        let client = Client::from_service(service, "default");
        let run = self.operator().run(client, CancellationToken::new());
        let ended = stage.within("the operator to end", run).await;
        format!("{:?}", ended.expect_err("it should not have ended well"))
    }

    fn operator(&self) -> Operator {
        let event_loop = EventLoop::start();
        let witness = Witness::new(
            self.stage.journal.clone(),
            self.stage.recorder.clone(),
            event_loop.clone(),
        );
        let group = self.stage.api.group();
        let indices = indices(&self.handlers);
        self.stage.keep(indices.clone());
        let all = registry(&self.handlers, &group, &witness);
        let operator = if self.declares_late {
            let startup: Vec<_> = self.handlers.iter().filter(|h| h.is_startup()).collect();
            let startup = registry(startup, &group, &witness);
            let declared = Declarations::new(all, indices);
            Operator::new(startup).declare_after_startup(|_| Ok(declared))
        } else {
            Operator::new(all).indices(indices)
        };
        let mut operator = operator
            .settings(self.settings.clone())
            .front(Arc::new(witness))
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
            operator = operator.liveness(endpoint.expect("it is a valid address"));
        }
        if let Some(pulse) = &self.pulse {
            operator = operator.pulse(Arc::clone(pulse));
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

/// An operator that was started at least once. It ends when it is dropped.
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
    /// Starts it (again): a new process, as far as one can see from outside.
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

    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(&self) {
        if let Some(mut running) = self.take() {
            running.stop.cancel();
            let ended = running.task.join_next();
            let ended = self.setup.stage.within("the operator to stop", ended).await;
            assert!(matches!(ended, Some(Ok(Ok(())))), "{ended:?}");
        }
    }

    /// Ends it without a word: nothing of it reaches the API any more.
    pub(crate) async fn kill(&self) {
        if let Some(mut running) = self.take() {
            running.line.cut();
            running.task.shutdown().await;
        }
    }

    /// Stops it and starts it again.
    pub(crate) async fn restart(&self) {
        self.stop().await;
        self.start().await;
    }

    /// What it is busy with.
    pub(crate) fn inspect(&self) -> Inspect {
        let running = self.running.lock();
        let running = running.as_ref().expect("the operator is running");
        running.inspect.clone()
    }

    fn take(&self) -> Option<Running> {
        let running = self.running.lock().take();
        // What was killed does not come to rest by itself.
        self.setup.stage.inspects.lock().clear();
        running
    }
}
