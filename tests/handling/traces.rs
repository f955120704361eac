//! The worked traces, call by call, with and without touching.
//!
//! The tests of restarts kill the operator in the middle of these traces.

use serde_json::{Value, json};

use crate::front::{Declaration, done, gives, on, register, temporary};
use crate::stage::{Actor, FINALIZER, LAST_HANDLED, Stage, last_handled, sandboxed};

/// Handlers and user actions.
#[derive(Clone, Copy)]
pub(crate) struct Trace {
    pub(crate) name: &'static str,
    pub(crate) handlers: fn() -> Vec<Declaration>,
    pub(crate) steps: &'static [Step],
}

/// A user action, followed by a wait until the operator is idle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Create,
    Change,
    Delete,
    /// Stops and restarts the operator.
    Restart,
    /// Stops the operator, changes the object, and restarts the operator.
    ChangeInDowntime,
}

fn make() -> Declaration {
    on::create("make").does(|_| async { gives(json!({"a": 1})) })
}

/// Makes a handler fail once, with a delay of ten seconds.
fn hesitant(handler: Declaration) -> Declaration {
    handler.does(|call| async move {
        if call.retry == 0 {
            return temporary("not ready", 10.0);
        }
        done()
    })
}

pub(crate) const A: Trace = Trace {
    name: "A: creation at once",
    handlers: || vec![make(), on::delete("unmake")],
    steps: &[Step::Create],
};

pub(crate) const B: Trace = Trace {
    name: "B: one temporary error",
    handlers: || vec![hesitant(on::create("make"))],
    steps: &[Step::Create],
};

pub(crate) const C: Trace = Trace {
    name: "C: two handlers",
    handlers: || vec![on::create("a"), on::create("b")],
    steps: &[Step::Create],
};

pub(crate) const D: Trace = Trace {
    name: "D: deletion",
    handlers: || vec![make(), on::delete("unmake")],
    steps: &[Step::Create, Step::Delete],
};

pub(crate) const F: Trace = Trace {
    name: "F: changed in downtime",
    handlers: || vec![on::create("make"), on::update("change"), on::resume("up")],
    steps: &[Step::Create, Step::ChangeInDowntime],
};

pub(crate) const UPDATES: Trace = Trace {
    name: "updates with retries",
    handlers: || {
        let result = |id: &str| on::update(id).does(|_| async { gives(json!({"done": true})) });
        vec![
            result("quick"),
            hesitant(on::update("slow")),
            on::field("watched", "spec.field"),
        ]
    },
    steps: &[Step::Create, Step::Change],
};

pub(crate) const CHILDREN: Trace = Trace {
    name: "sub-handlers with retries",
    handlers: || {
        let parent = on::create("make").does(|call| async move {
            let child = on::sub("a").does(|_| async { gives(json!({"item": "a"})) });
            register(&call, &child);
            register(&call, &hesitant(on::sub("b")));
            gives(json!("parent"))
        });
        vec![parent, on::delete("unmake")]
    },
    steps: &[Step::Create, Step::Delete],
};

pub(crate) const LIFE: Trace = Trace {
    name: "a whole life",
    handlers: || {
        vec![
            hesitant(on::create("make")),
            on::create("other"),
            on::update("change"),
            on::resume("up"),
            hesitant(on::delete("unmake")),
            on::delete("other_unmake"),
        ]
    },
    steps: &[Step::Create, Step::Change, Step::Restart, Step::Delete],
};

/// All traces.
pub(crate) const ALL: [Trace; 8] = [A, B, C, D, F, UPDATES, CHILDREN, LIFE];

impl Trace {
    /// Runs the actions with this operator. `rest` waits until the operator is idle.
    pub(crate) async fn play(&self, stage: &Stage, operator: &Actor<'_>, rest: impl AsyncFn()) {
        for step in self.steps {
            match step {
                Step::Create => {
                    stage.create("obj", json!({"field": "value"})).await;
                }
                Step::Change => {
                    stage
                        .merge("obj", json!({"spec": {"field": "other"}}))
                        .await;
                }
                Step::Delete => stage.delete("obj").await,
                Step::Restart => operator.restart().await,
                Step::ChangeInDowntime => {
                    operator.stop().await;
                    stage
                        .merge("obj", json!({"spec": {"field": "other"}}))
                        .await;
                    operator.start().await;
                }
            }
            rest().await;
        }
    }
}

/// Runs a trace and returns the writes, with times and versions replaced.
async fn writes(stage: &Stage, trace: Trace, touching: bool) -> Vec<(&'static str, Value)> {
    let operator = stage
        .operator((trace.handlers)())
        .settings(|settings| settings.persistence.touching = touching)
        .start()
        .await;
    trace
        .play(stage, &operator, async || stage.pass(100.0).await)
        .await;
    let writes = stage.writes();
    assert!(
        writes
            .iter()
            .all(kopf_testing::recording::Call::is_accepted)
    );
    // Each JSON patch tests the previous version.
    let first = writes[0].body[0]["value"].as_str();
    let mut before = first.map(str::to_owned);
    let mut result = Vec::new();
    for call in writes {
        let mut body = call.body.clone();
        if let Some(test) = body.as_array_mut().map(|operations| operations.remove(0)) {
            assert_eq!(test["op"], "test");
            // The user has changed the object in between, and the release tests only the finalizer.
            if trace.steps.iter().any(|step| matches!(step, Step::Delete)) {
                let is_release = test["path"] == "/metadata/uid";
                assert!(is_release || test["path"] == "/metadata/resourceVersion");
            } else {
                assert_eq!(test["path"], "/metadata/resourceVersion");
                assert_eq!(test["value"].as_str(), before.as_deref());
            }
        }
        if let Some(annotations) = body.pointer_mut("/metadata/annotations") {
            let annotations = annotations.as_object_mut().unwrap();
            // The original has no attempted essences.
            annotations.remove("kopf.zalando.org/attempted-essences");
            for (key, value) in annotations {
                let parsed = value
                    .as_str()
                    .and_then(|text| serde_json::from_str::<Value>(text).ok());
                if let Some(mut parsed) = parsed {
                    for time in ["started", "stopped", "delayed"] {
                        if parsed.get(time).is_some() {
                            parsed[time] = json!("TIME");
                        }
                    }
                    *value = parsed;
                } else if value.is_string() && key.ends_with("touch-dummy") {
                    *value = json!("TIME");
                }
            }
        }
        before = call.resource_version().map(str::to_owned);
        let target = match call.subresource.as_deref() {
            Some("status") => "status",
            _ => "main",
        };
        result.push((target, body));
    }
    result
}

fn annotations(annotations: Value) -> Value {
    json!({"metadata": {"annotations": annotations}})
}

fn essence() -> Value {
    json!({"spec": {"field": "value"}})
}

fn record(name: &str, more: Value) -> (String, Value) {
    let mut record = json!({
        "started": "TIME", "purpose": "create", "retries": 0, "success": false, "failure": false,
    });
    for (key, value) in more.as_object().unwrap() {
        record[key] = value.clone();
    }
    (format!("kopf.zalando.org/{name}"), record)
}

fn both_ways(trace: Trace, check: impl Fn(Vec<(&'static str, Value)>, bool)) {
    for touching in [false, true] {
        sandboxed(async |stage| {
            let writes = writes(stage, trace, touching).await;
            check(writes, touching);
        });
    }
}

#[test]
fn a_creation_at_once() {
    both_ways(A, |writes, _| {
        let expected = [
            (
                "main",
                json!([{"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}]),
            ),
            ("main", annotations(json!({LAST_HANDLED: essence()}))),
            ("status", json!({"status": {"make": {"a": 1}}})),
        ];
        assert_eq!(writes, expected);
    });
}

#[test]
fn b_one_temporary_error() {
    both_ways(B, |writes, touching| {
        let more = json!({"delayed": "TIME", "retries": 1, "message": "not ready"});
        let failed = json!([record("make", more)]);
        let failed: serde_json::Map<_, _> = failed
            .as_array()
            .unwrap()
            .iter()
            .map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].clone()))
            .collect();
        let mut expected = vec![("main", annotations(Value::Object(failed)))];
        let mut done = json!({"kopf.zalando.org/make": null, LAST_HANDLED: essence()});
        if touching {
            let touch = json!({"kopf.zalando.org/touch-dummy": "TIME"});
            expected.push(("main", annotations(touch)));
            done["kopf.zalando.org/touch-dummy"] = Value::Null;
        }
        expected.push(("main", annotations(done)));
        assert_eq!(writes, expected);
    });
}

#[test]
fn c_two_handlers() {
    both_ways(C, |writes, _| {
        let (a, done) = record(
            "a",
            json!({"stopped": "TIME", "retries": 1, "success": true}),
        );
        let (b, waits) = record("b", json!({}));
        let expected = [
            ("main", annotations(json!({&a: done, &b: waits}))),
            (
                "main",
                annotations(json!({a: null, b: null, LAST_HANDLED: essence()})),
            ),
        ];
        assert_eq!(writes, expected);
    });
}

#[test]
fn d_deletion() {
    both_ways(D, |writes, _| {
        let path = "/metadata/finalizers/0";
        let remove = json!([
            {"op": "test", "path": path, "value": FINALIZER},
            {"op": "remove", "path": path},
        ]);
        assert_eq!(writes[3..], [("main", remove)]);
    });
}

#[test]
fn e_restart_in_the_middle_of_b() {
    for touching in [false, true] {
        sandboxed(async |stage| {
            let operator = stage
                .operator((B.handlers)())
                .settings(|settings| settings.persistence.touching = touching)
                .start()
                .await;
            stage.create("obj", json!({"field": "value"})).await;
            stage.pass(4.0).await;
            operator.kill().await;
            operator.start().await;
            stage.pass(4.0).await;
            assert_eq!(
                stage.journal.count("make"),
                1,
                "the rest of the delay passes"
            );
            stage.pass(10.0).await;
            let retries: Vec<_> = stage.journal.all().iter().map(|e| e.retry).collect();
            assert_eq!(retries, [0, 1]);
            assert_eq!(stage.writes().len(), if touching { 3 } else { 2 });
            assert_eq!(last_handled(&stage.get("obj").await), essence());
        });
    }
}

#[test]
fn f_changed_in_downtime() {
    both_ways(F, |writes, _| {
        let (change, mut done) = record(
            "change",
            json!({"stopped": "TIME", "retries": 1, "success": true}),
        );
        let (up, mut waits) = record("up", json!({}));
        done["purpose"] = json!("update");
        waits["purpose"] = json!("update");
        let other = json!({"spec": {"field": "other"}});
        let expected = [
            ("main", annotations(json!({LAST_HANDLED: essence()}))),
            ("main", annotations(json!({&change: done, &up: waits}))),
            (
                "main",
                annotations(json!({change: null, up: null, LAST_HANDLED: other})),
            ),
        ];
        assert_eq!(writes, expected);
    });
}
