//! Where a case plays: an API server, a kind of its own, an operator with the case's handlers, and
//! all that can be seen of it from outside.
//!
//! On the sandbox in process, time is virtual: a case waits for as long as it likes. On a real
//! control plane, the same cases run with real time; those that need virtual time or faults are
//! left out there.

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
pub(crate) use self::altering::{strip_annotations, strip_finalizers};
pub(crate) use self::journal::{Entry, Journal};
pub(crate) use self::log::{Log, Record};
pub(crate) use self::waiting::assert_rarer;
use crate::front::{Declaration, look};

/// The diff-base annotation by default.
pub(crate) const LAST_HANDLED: &str = "kopf.zalando.org/last-handled-configuration";
/// The finalizer by default.
pub(crate) const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

/// What the kind of the case is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Namespaced, with the subresource `status`.
    WithStatus,
    /// Namespaced, without subresources.
    Plain,
    /// Outside of namespaces, with the subresource `status`.
    Cluster,
}

/// See the module.
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

/// Runs a case on whichever server the environment asks for.
#[track_caller]
pub(crate) fn everywhere(case: impl AsyncFnOnce(&Stage)) {
    everywhere_on(Kind::WithStatus, case);
}

/// The same, with another kind.
#[track_caller]
pub(crate) fn everywhere_on(kind: Kind, case: impl AsyncFnOnce(&Stage)) {
    play(kind, None, case);
}

/// Runs a case that needs virtual time or faults: on the sandbox in process, and nowhere else.
#[track_caller]
pub(crate) fn sandboxed(case: impl AsyncFnOnce(&Stage)) {
    sandboxed_on(Kind::WithStatus, case);
}

/// The same, with another kind.
#[track_caller]
pub(crate) fn sandboxed_on(kind: Kind, case: impl AsyncFnOnce(&Stage)) {
    if Server::from_env() == Server::Sandbox {
        play(kind, None, case);
    }
}

/// The same, beginning at this moment for the operator.
#[track_caller]
pub(crate) fn sandboxed_at(now: &str, case: impl AsyncFnOnce(&Stage)) {
    let now = now.parse().expect("cases give valid timestamps");
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
        .expect("a runtime of one thread needs nothing special");
    runtime.block_on(async {
        let api = Api::start().await;
        define(&api, kind).create().await;
        let exhibit = Exhibit {
            log,
            recorder: Recorder::default(),
        };
        let stage = Stage {
            api,
            log: exhibit.log.clone(),
            journal: Journal::default(),
            recorder: exhibit.recorder.clone(),
            kind,
            clock: now.map_or_else(Clock::system, Clock::starting_at),
            inspects: Mutex::default(),
            indices: Mutex::default(),
        };
        case(&stage).await;
        drop(exhibit);
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

/// The operator.
impl Stage {
    /// Prepares an operator with these handlers.
    pub(crate) fn operator(&self, handlers: impl IntoIterator<Item = Declaration>) -> Setup<'_> {
        Setup::new(self, handlers.into_iter().collect())
    }

    /// Starts an operator with these handlers and default settings.
    pub(crate) async fn run(&self, handlers: impl IntoIterator<Item = Declaration>) -> Actor<'_> {
        self.operator(handlers).start().await
    }

    /// The writes of the operator so far, k8s-events aside.
    pub(crate) fn writes(&self) -> Vec<Call> {
        let mut calls = self.recorder.calls();
        calls.retain(|call| !call.is_event());
        calls
    }

    /// The writes to one object.
    pub(crate) fn writes_to(&self, name: &str) -> Vec<Call> {
        let mut calls = self.writes();
        calls.retain(|call| call.name.as_deref() == Some(name));
        calls
    }

    /// The k8s-events that the operator has created.
    pub(crate) fn posts(&self) -> Vec<Value> {
        let calls = self.recorder.calls().into_iter();
        calls.filter(Call::is_event).map(|call| call.body).collect()
    }

    /// Stops the operator's n-th write from now on.
    pub(crate) fn breakpoint(&self, nth: u64, moment: Moment) -> Breakpoint {
        self.recorder.breakpoint(nth, moment)
    }

    /// Shows these indices from now on: those of the operator that was started last.
    fn keep(&self, indices: Indices) {
        *self.indices.lock() = indices;
    }

    /// What is in an index now, in order.
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

    /// The time of the operators.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whether time is virtual.
    pub(crate) fn is_virtual(&self) -> bool {
        self.api.server() == Server::Sandbox
    }
}

/// Faults; on the sandbox only.
impl Stage {
    pub(crate) fn faults(&self) -> &Faults {
        let sandbox = self.api.sandbox();
        sandbox.expect("the case is for the sandbox").faults()
    }

    /// Breaks all streams; that of the case's kind has to begin with a listing again.
    pub(crate) fn relist(&self) {
        let expired = Fault::error(410).verb(Verb::Watch).kind("things");
        self.faults().inject(expired.times(1));
        self.faults().kill_watches();
    }
}

/// The objects.
impl Stage {
    /// The path of an object of the case's kind; with `""`, of all.
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

    /// An object of the case's kind, not created yet.
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

    /// Creates an object with more parts: `metadata`, `spec`, and a `status` where that is a
    /// subresource, too.
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

    /// The object; null if there is none.
    pub(crate) async fn get(&self, name: &str) -> Value {
        let answer = self.api.get(&self.path(name)).await;
        match answer.code {
            404 => Value::Null,
            _ => answer.expect_code(200).json,
        }
    }

    /// Changes an object by a merge-patch.
    pub(crate) async fn merge(&self, name: &str, patch: Value) -> Value {
        let answer = self.api.merge(&self.path(name), &patch).await;
        answer.expect_code(200).json
    }

    /// Changes the status by a merge-patch.
    pub(crate) async fn merge_status(&self, name: &str, patch: Value) -> Value {
        self.merge(&format!("{name}/status"), patch).await
    }

    /// Deletes an object, or begins to.
    pub(crate) async fn delete(&self, name: &str) {
        self.api.deleted(&self.path(name)).await;
    }
}

/// What could be seen, shown if the case fails.
struct Exhibit {
    log: Log,
    recorder: Recorder,
}

impl Drop for Exhibit {
    #[allow(
        clippy::print_stderr,
        reason = "it is for the one who reads the test's output"
    )]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what the operator has logged:");
            for record in self.log.records() {
                eprintln!("{record}");
            }
            eprintln!("--- what it has written:");
            for call in self.recorder.calls() {
                let status = call.status.unwrap_or_default();
                eprintln!("{} {} {status}: {}", call.verb, call.path, call.body);
            }
        }
    }
}

/// The annotation of an object, or an empty text.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["annotations"][key]
        .as_str()
        .unwrap_or_default()
}

/// The diff-base on an object by default; null if there is none.
pub(crate) fn last_handled(object: &Value) -> Value {
    serde_json::from_str(annotation(object, LAST_HANDLED)).unwrap_or_default()
}

/// The progress record of a handler by default, by the name of its annotation; null if there is none.
pub(crate) fn progress(object: &Value, name: &str) -> Value {
    serde_json::from_str(annotation(object, &format!("kopf.zalando.org/{name}")))
        .unwrap_or_default()
}

/// The names of all annotations of the framework on an object.
pub(crate) fn own_annotations(object: &Value) -> Vec<&str> {
    let annotations = object["metadata"]["annotations"].as_object();
    annotations
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix("kopf.zalando.org/"))
        .collect()
}

/// Whether the current state is the one that was handled last, with nothing left to do.
pub(crate) fn is_handled(object: &Value) -> bool {
    own_annotations(object) == ["last-handled-configuration"]
        && last_handled(object)["spec"] == object["spec"]
}

/// The finalizers of an object.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
