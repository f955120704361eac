//! Explorations of an operator in this process.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Request, Response, header};
use kopf::Operator;
use kopf_client::Client;
use kopf_engine::clock::Clock;
use kopf_explore::Settings;
use kopf_explore::deviation::Family;
use kopf_explore::explore::{Exploration, ExploreError, working_folder};
use kopf_explore::outcome::Outcome;
use kopf_explore::report::{lines_of, summary};
use kopf_explore::run::{Connection, Launch, Subject, World, survey};
use kopf_explore::scenario::{Scenario, variations};
use kopf_sandbox::Service;
use kopf_sandbox::manifests::Manifests;
use kube::client::Body;
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// Maximum time of a step in virtual time: longer than the default delay of retries.
const VIRTUAL_LIMIT: Duration = Duration::from_secs(600);

/// An exploration of an operator; see [`Builder::explore`](super::Builder::explore).
#[derive(Debug)]
#[must_use = "an exploration does nothing until `.run().await` or `.passes().await`"]
pub struct Exploring {
    world: World,
    scenario: Scenario,
    settings: Settings,
}

impl Exploring {
    pub(super) fn new(
        operator: Operator,
        objects: &[Value],
        scenario: Scenario,
        seed: Option<u64>,
        is_paused: bool,
    ) -> Self {
        let texts = objects.iter().map(|object| ("the lab", object.to_string()));
        let manifests = Manifests::parse(texts)
            .unwrap_or_else(|error| panic!("cannot use the objects of the lab: {}", error.what()));
        let mut settings = Settings::default();
        settings.seed = seed.unwrap_or_default();
        settings.references = 2;
        if is_paused {
            // One at a time is as fast, and can be repeated exactly.
            settings.jobs = 1;
            settings.limit = VIRTUAL_LIMIT;
        }
        Self {
            world: World {
                manifests,
                simulation: None,
                launcher: Arc::new(InProcess(operator)),
            },
            scenario,
            settings,
        }
    }

    /// Explores only these families of deviations.
    pub fn only(mut self, families: impl IntoIterator<Item = Family>) -> Self {
        self.settings.only = families.into_iter().collect();
        self
    }

    /// Changes other settings: limits, invariants, oracles.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn note() {}
    /// # let operator = Operator::builder().handler(on::create("configmaps", note)).build().unwrap();
    /// # let steps = "steps: [{apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}]";
    /// # let scenario = kopf_testing::explore::scenario::parse("steps", steps).unwrap();
    /// let exploration = kopf_testing::Lab::new()
    ///     .operator(operator)
    ///     .explore(scenario)
    ///     .settings(|settings| settings.plans = Some(100));
    /// # let _ = exploration;
    /// ```
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Simulates controllers of workloads, such as those of Deployments.
    pub fn simulate(mut self, simulation: kopf_sandbox::simulation::Simulation) -> Self {
        self.world.simulation = Some(simulation);
        self
    }

    /// Explores, and returns the findings. Fails if the undisturbed operator is not stable.
    pub async fn run(self) -> Result<Outcome, ExploreError> {
        let subject = self.scenario.subject();
        let schema = survey(&self.world, subject).await?.schema;
        let variations = subject
            .map(|object| variations(object, schema.as_ref()))
            .unwrap_or_default();
        let folder = working_folder(None)
            .unwrap_or_else(|error| panic!("cannot create a folder for temporary files: {error}"));
        let exploration = Exploration {
            world: self.world,
            scenario: self.scenario,
            variations,
            settings: self.settings,
            folder: folder.path().to_owned(),
        };
        exploration.run(&CancellationToken::new(), &|_| {}).await
    }

    /// Explores, and panics with a report if anything is found.
    pub async fn passes(self) {
        let outcome = self
            .run()
            .await
            .unwrap_or_else(|error| panic!("no exploration is possible: {error}"));
        if outcome.findings.is_empty() && outcome.failed.is_empty() {
            return;
        }
        let lines = outcome.findings.iter().flat_map(lines_of);
        let lines = lines.chain(summary(&outcome)).map(|line| line.text);
        panic!("{}", lines.collect::<Vec<_>>().join("\n"));
    }
}

/// The operator as a task of this process.
struct InProcess(Operator);

impl Launch for InProcess {
    fn subject(&self, _: &Path) -> io::Result<Box<dyn Subject>> {
        Ok(Box::new(Tasks {
            operator: self.0.clone(),
            clock: Clock::system(),
            running: Mutex::default(),
            output: Mutex::default(),
        }))
    }

    fn describe(&self) -> String {
        "the operator of the lab".to_owned()
    }

    fn is_in_process(&self) -> bool {
        true
    }
}

/// The instances of one run.
struct Tasks {
    operator: Operator,
    clock: Clock,
    running: Mutex<BTreeMap<usize, Instance>>,
    output: Mutex<String>,
}

struct Instance {
    running: JoinSet<Result<(), String>>,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Tasks {
    fn running(&self) -> MutexGuard<'_, BTreeMap<usize, Instance>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, text: &str) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.push_str(text);
        output.push('\n');
    }
}

impl Subject for Tasks {
    fn start(&self, instance: usize, connection: &Connection) -> io::Result<()> {
        let token = HeaderValue::try_from(format!("Bearer {}", connection.token()))
            .map_err(io::Error::other)?;
        let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
        let wire = Wire {
            service: connection.service().clone(),
            token,
            cut: cut.clone(),
        };
        let client = Client::from_service(wire, "default");
        let operator = self.operator.to_engine().clock(self.clock);
        let stopped = stop.clone();
        let mut running = JoinSet::new();
        running.spawn(async move {
            let ended = operator.run(client, stopped).await;
            ended.map_err(|error| format!("{error:?}"))
        });
        let started = Instance { running, stop, cut };
        self.running().insert(instance, started);
        Ok(())
    }

    fn kill(&self, instance: usize) {
        if let Some(task) = self.running().get_mut(&instance) {
            // The task may be the caller, and ends later.
            task.cut.cancel();
            task.running.abort_all();
        }
    }

    fn terminate(&self, instance: usize) {
        if let Some(task) = self.running().get(&instance) {
            task.stop.cancel();
        }
    }

    fn exits(&self) -> Vec<(usize, String)> {
        let mut running = self.running();
        let mut ended = Vec::new();
        for (instance, task) in running.iter_mut() {
            if let Some(result) = task.running.try_join_next() {
                ended.push((*instance, describe(result)));
            }
        }
        for (instance, status) in &ended {
            running.remove(instance);
            self.note(status);
        }
        ended
    }

    fn output(&self) -> String {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.clone()
    }
}

fn describe(ended: Result<Result<(), String>, JoinError>) -> String {
    match ended {
        Ok(Ok(())) => "it has ended".to_owned(),
        Ok(Err(error)) => error,
        Err(error) if error.is_panic() => format!("panic: {error}"),
        Err(_) => "it was killed".to_owned(),
    }
}

/// The requests of one instance. After it is cut, they are neither sent nor answered.
#[derive(Clone)]
struct Wire {
    service: Service,
    token: HeaderValue,
    cut: CancellationToken,
}

impl tower::Service<Request<Body>> for Wire {
    type Response = Response<kopf_sandbox::Body>;
    type Error = <Service as tower::Service<Request<Body>>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let headers = request.headers_mut();
        headers.insert(header::AUTHORIZATION, self.token.clone());
        let (mut service, cut) = (self.service.clone(), self.cut.clone());
        Box::pin(async move {
            if cut.is_cancelled() {
                std::future::pending::<()>().await;
            }
            let response = service.call(request).await;
            if cut.is_cancelled() {
                std::future::pending::<()>().await;
            }
            response
        })
    }
}
