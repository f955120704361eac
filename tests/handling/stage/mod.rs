//! The environment of a test: an API server, a CRD, an operator with the handlers of the test, and
//! records of its calls, writes and logs.
//!
//! The in-process sandbox has virtual time. On a real control plane, the same tests run in real
//! time; tests that need virtual time or faults are skipped.

mod actor;
mod altering;
mod journal;
mod log;
mod peers;
mod waiting;

use std::collections::BTreeMap;

use jiff::Timestamp;
use kopf_core::sync::Mutex;
use kopf_engine::clock::Clock;
use kopf_engine::indexing::Indices;
use kopf_engine::inspect::Inspect;
use kopf_sandbox::fault::{Fault, Faults, Verb};
use kopf_testing::recording::{Breakpoint, Call, Moment, Recorder};
use kopf_tests::{Api, CrdBuilder, Server};
use serde_json::{Value, json};

pub(crate) use self::actor::{Actor, Setup};
pub(crate) use self::altering::{stamp_spec, strip_annotations, strip_finalizers};
pub(crate) use self::journal::{Entry, Journal};
pub(crate) use self::log::{Log, Record};
pub(crate) use self::waiting::assert_rarer;
use crate::front::{Declaration, look};

/// The default annotation of the diff-base.
pub(crate) const LAST_HANDLED: &str = "kopf.zalando.org/last-handled-configuration";
/// The default finalizer.
pub(crate) const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

/// Properties of the CRD of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Namespaced, with the subresource `status`.
    WithStatus,
    /// Namespaced, without subresources.
    Plain,
    /// Cluster-scoped, with the subresource `status`.
    Cluster,
}

/// The environment of a test. See the module.
pub(crate) struct Stage {
    pub(crate) api: Api,
    pub(crate) log: Log,
    pub(crate) journal: Journal,
    pub(crate) recorder: Recorder,
    pub(crate) kind: Kind,
    clock: Clock,
    inspects: Mutex<Vec<Inspect>>,
    indices: Mutex<Indices>,
}

/// Runs a test on the server selected by the environment.
#[track_caller]
pub(crate) fn everywhere(case: impl AsyncFnOnce(&Stage)) {
    everywhere_on(Kind::WithStatus, case);
}

/// Runs a test with another CRD.
#[track_caller]
pub(crate) fn everywhere_on(kind: Kind, case: impl AsyncFnOnce(&Stage)) {
    play(kind, None, case);
}

/// Runs a test that needs virtual time or faults, on the in-process sandbox only.
#[track_caller]
pub(crate) fn sandboxed(case: impl AsyncFnOnce(&Stage)) {
    sandboxed_on(Kind::WithStatus, case);
}

/// Runs a sandboxed test with another CRD.
#[track_caller]
pub(crate) fn sandboxed_on(kind: Kind, case: impl AsyncFnOnce(&Stage)) {
    if Server::from_env() == Server::Sandbox {
        play(kind, None, case);
    }
}

/// Runs a sandboxed test that starts at this time of the operator's clock.
#[track_caller]
pub(crate) fn sandboxed_at(now: &str, case: impl AsyncFnOnce(&Stage)) {
    let now = now.parse().expect("timestamps of tests are valid");
    if Server::from_env() == Server::Sandbox {
        play(Kind::WithStatus, Some(now), case);
    }
}

fn play(kind: Kind, now: Option<Timestamp>, case: impl AsyncFnOnce(&Stage)) {
    let (log, _guard) = Log::capture();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(Server::from_env() == Server::Sandbox)
        .build()
        .expect("a single-threaded runtime can be built");
    runtime.block_on(async {
        let api = Api::start().await;
        define(&api, kind).create().await;
        let report = FailureReport {
            log,
            recorder: Recorder::default(),
        };
        let stage = Stage {
            api,
            log: report.log.clone(),
            journal: Journal::default(),
            recorder: report.recorder.clone(),
            kind,
            clock: now.map_or_else(Clock::system, Clock::starting_at),
            inspects: Mutex::default(),
            indices: Mutex::default(),
        };
        case(&stage).await;
        drop(report);
    });
}

fn define(api: &Api, kind: Kind) -> CrdBuilder<'_> {
    let crd = api.crd().named("things", "thing", "Thing");
    match kind {
        Kind::WithStatus => crd.with_status(),
        Kind::Plain => crd,
        Kind::Cluster => crd.with_status().cluster_scoped(),
    }
}

/// Operators.
impl Stage {
    /// Builds an operator with these handlers.
    pub(crate) fn operator(&self, handlers: impl IntoIterator<Item = Declaration>) -> Setup<'_> {
        Setup::new(self, handlers.into_iter().collect())
    }

    /// Starts an operator with these handlers and default settings.
    pub(crate) async fn run(&self, handlers: impl IntoIterator<Item = Declaration>) -> Actor<'_> {
        self.operator(handlers).start().await
    }

    /// Returns the writes of the operator, except Kubernetes events. Merge patches are shown without
    /// the uid of their object, which each has.
    pub(crate) fn writes(&self) -> Vec<Call> {
        let mut calls = self.recorder.calls();
        calls.retain(|call| !call.is_event());
        for call in &mut calls {
            without_uid(call);
        }
        calls
    }

    /// Returns the writes to one object.
    pub(crate) fn writes_to(&self, name: &str) -> Vec<Call> {
        let mut calls = self.writes();
        calls.retain(|call| call.name.as_deref() == Some(name));
        calls
    }

    /// Returns the Kubernetes events created by the operator.
    pub(crate) fn posts(&self) -> Vec<Value> {
        let calls = self.recorder.calls().into_iter();
        calls.filter(Call::is_event).map(|call| call.body).collect()
    }

    /// Sets a breakpoint at the operator's n-th write from now on.
    pub(crate) fn breakpoint(&self, nth: u64, moment: Moment) -> Breakpoint {
        self.recorder.breakpoint(nth, moment)
    }

    /// Keeps the indices of the operator that was started last.
    fn keep(&self, indices: Indices) {
        *self.indices.lock() = indices;
    }

    /// Returns the content of an index, sorted.
    pub(crate) fn index(&self, id: &str) -> Value {
        let indices = self.indices.lock();
        let items = look(&indices, id).items().into_iter();
        let items: BTreeMap<String, Vec<Value>> = items
            .map(|(key, store)| {
                let mut values: Vec<Value> = store.iter().cloned().collect();
                values.sort_by_key(Value::to_string);
                (key, values)
            })
            .collect();
        json!(items)
    }

    /// Returns the current time of the operators.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns `true` if time is virtual.
    pub(crate) fn is_virtual(&self) -> bool {
        self.api.server() == Server::Sandbox
    }
}

/// Returns the fault injection of the sandbox.
impl Stage {
    pub(crate) fn faults(&self) -> &Faults {
        let sandbox = self.api.sandbox();
        sandbox.expect("the test is sandboxed").faults()
    }

    /// Breaks all streams. The stream of the test's CRD must list again.
    pub(crate) fn relist(&self) {
        let expired = Fault::error(410).verb(Verb::Watch).kind("things");
        self.faults().inject(expired.times(1));
        self.faults().kill_watches();
    }
}

/// Objects.
impl Stage {
    /// Returns the path of an object of the test's CRD, or of the collection for `""`.
    pub(crate) fn path(&self, rest: &str) -> String {
        let version = format!("{}/v1", self.api.group());
        let things = format!("things/{rest}");
        let things = things.trim_end_matches('/');
        if self.kind == Kind::Cluster {
            format!("/apis/{version}/{things}")
        } else {
            self.api.group_path(&version, things)
        }
    }

    /// Builds an object of the test's CRD without creating it.
    pub(crate) fn thing(&self, name: &str, spec: Value) -> Value {
        json!({
            "apiVersion": format!("{}/v1", self.api.group()),
            "kind": "Thing",
            "metadata": {"name": name},
            "spec": spec,
        })
    }

    /// Creates an object with a name and a spec.
    pub(crate) async fn create(&self, name: &str, spec: Value) -> Value {
        self.create_with(name, json!({"spec": spec})).await
    }

    /// Creates an object with `metadata`, `spec` and `status`. The status is also written if it is
    /// a subresource.
    pub(crate) async fn create_with(&self, name: &str, parts: Value) -> Value {
        let mut object = self.thing(name, json!({}));
        for (key, value) in parts.as_object().cloned().unwrap_or_default() {
            object[&key] = value;
        }
        object["metadata"]["name"] = json!(name);
        let made = self.api.created(&self.path(""), &object).await;
        if object["status"].is_object() && self.kind != Kind::Plain {
            let status = json!({"status": object["status"]});
            return self.merge_status(name, status).await;
        }
        made.json
    }

    /// Returns an object, or null if it does not exist.
    pub(crate) async fn get(&self, name: &str) -> Value {
        let response = self.api.get(&self.path(name)).await;
        match response.code {
            404 => Value::Null,
            _ => response.expect_code(200).json,
        }
    }

    /// Changes an object by a merge patch.
    pub(crate) async fn merge(&self, name: &str, patch: Value) -> Value {
        let response = self.api.merge(&self.path(name), &patch).await;
        response.expect_code(200).json
    }

    /// Changes the status by a merge patch.
    pub(crate) async fn merge_status(&self, name: &str, patch: Value) -> Value {
        self.merge(&format!("{name}/status"), patch).await
    }

    /// Requests the deletion of an object.
    pub(crate) async fn delete(&self, name: &str) {
        self.api.deleted(&self.path(name)).await;
    }
}

/// Prints logs and writes if the test fails.
struct FailureReport {
    log: Log,
    recorder: Recorder,
}

impl Drop for FailureReport {
    #[allow(clippy::print_stderr, reason = "output of failed tests")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of the operator:");
            for record in self.log.records() {
                eprintln!("{record}");
            }
            eprintln!("--- writes of the operator:");
            for call in self.recorder.calls() {
                let status = call.status.unwrap_or_default();
                eprintln!("{} {} {status}: {}", call.verb, call.path, call.body);
            }
        }
    }
}

fn without_uid(call: &mut Call) {
    let body = call.body.as_object_mut();
    let metadata = body.and_then(|body| body.get_mut("metadata")?.as_object_mut());
    if call.content_type == "application/merge-patch+json"
        && let Some(metadata) = metadata
    {
        metadata.remove("uid");
        if metadata.is_empty()
            && let Some(body) = call.body.as_object_mut()
        {
            body.remove("metadata");
        }
    }
}

/// Returns an annotation of an object, or an empty string.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["annotations"][key]
        .as_str()
        .unwrap_or_default()
}

/// Returns the diff-base in the default annotation, or null.
pub(crate) fn last_handled(object: &Value) -> Value {
    serde_json::from_str(annotation(object, LAST_HANDLED)).unwrap_or_default()
}

/// Returns the progress record in the default annotation of a handler, or null.
pub(crate) fn progress(object: &Value, name: &str) -> Value {
    serde_json::from_str(annotation(object, &format!("kopf.zalando.org/{name}")))
        .unwrap_or_default()
}

/// Returns the names of all annotations of the framework on an object.
pub(crate) fn own_annotations(object: &Value) -> Vec<&str> {
    let annotations = object["metadata"]["annotations"].as_object();
    annotations
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix("kopf.zalando.org/"))
        .collect()
}

/// Returns `true` if the current essence is equal to the diff-base and no progress is left.
pub(crate) fn is_handled(object: &Value) -> bool {
    own_annotations(object) == ["last-handled-configuration"]
        && last_handled(object)["spec"] == object["spec"]
}

/// Returns the finalizers of an object.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
