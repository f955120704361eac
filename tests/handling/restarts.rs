//! The operator is killed at every write of every trace, before or after the server processes it,
//! and restarted. The object must end in the same state, and no outcome recorded as final may be
//! repeated.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

use kopf_core::cause::Reason;
use kopf_testing::recording::{Breakpoint, Call, Moment};
use serde_json::{Value, json};

use crate::front::{gives, on};
use crate::stage::{Actor, Entry, LAST_HANDLED, Stage, sandboxed};
use crate::traces::{ALL, C, Trace};

/// The final state of a trace.
struct Ending {
    object: Value,
    writes: Vec<Call>,
    calls: Vec<Entry>,
    interrupted: bool,
}

/// Runs a trace. The operator is killed at its n-th write.
fn play(trace: Trace, touching: bool, death: Option<(u64, Moment)>) -> Option<Ending> {
    let mut ending = None;
    sandboxed(async |stage| {
        let operator = stage
            .operator((trace.handlers)())
            .settings(|settings| settings.persistence.touching = touching)
            .start()
            .await;
        let breakpoint = death.map(|(nth, moment)| stage.breakpoint(nth, moment));
        trace
            .play(stage, &operator, async || {
                rest(stage, &operator, breakpoint.as_ref()).await;
            })
            .await;
        ending = Some(Ending {
            object: remains(stage.get("obj").await),
            writes: stage.writes(),
            calls: stage.journal.all(),
            interrupted: breakpoint.is_some_and(|it| it.is_reached()),
        });
    });
    ending
}

/// Lets two minutes pass. If the operator reaches the breakpoint, it is killed and restarted.
async fn rest(stage: &Stage, operator: &Actor<'_>, breakpoint: Option<&Breakpoint>) {
    if let Some(breakpoint) = breakpoint
        && !breakpoint.is_reached()
    {
        let time = std::time::Duration::from_secs(120);
        if tokio::time::timeout(time, breakpoint.reached())
            .await
            .is_ok()
        {
            operator.kill().await;
            operator.start().await;
        }
    }
    stage.pass(120.0).await;
}

/// Removes fields that may differ.
fn remains(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for key in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "namespace",
        ] {
            metadata.remove(key);
        }
    }
    object["apiVersion"] = Value::Null;
    object
}

/// Removes lost results. Results are written to the status after the patch of the object, so the
/// formats of the original lose those of a cycle that is interrupted in between.
fn without_lost_results(object: &Value, lost: Option<&Call>) -> Value {
    let mut object = object.clone();
    let lost = lost.filter(|call| call.subresource.as_deref() == Some("status"));
    let results = lost.and_then(|call| call.body["status"].as_object());
    for id in results.into_iter().flat_map(serde_json::Map::keys) {
        if let Some(status) = object["status"].as_object_mut() {
            status.remove(id);
        }
    }
    if object["status"] == json!({}) {
        object.as_object_mut().map(|object| object.remove("status"));
    }
    object
}

/// Checks that handlers are not called while they are recorded as finished, and that only resume
/// handlers are called for a cause that is recorded as handled.
#[track_caller]
fn check_records(ending: &Ending, what: &str) {
    let accepted: Vec<_> = ending
        .writes
        .iter()
        .filter(|call| call.is_accepted())
        .collect();
    for entry in &ending.calls {
        let mut finished: BTreeMap<String, bool> = BTreeMap::new();
        let mut handled = None;
        for call in accepted.iter().take(entry.writes_before) {
            let annotations = call.body.pointer("/metadata/annotations");
            for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
                let parsed = value
                    .as_str()
                    .and_then(|text| serde_json::from_str::<Value>(text).ok());
                if key == LAST_HANDLED {
                    handled = parsed;
                    continue;
                }
                let is_over = parsed
                    .is_some_and(|record| record["success"] == true || record["failure"] == true);
                finished.insert(key.clone(), is_over);
            }
        }
        let key = format!("kopf.zalando.org/{}", entry.id.replace('/', "."));
        assert!(
            finished.get(&key) != Some(&true),
            "{what}: {} is called again though it is recorded as finished",
            entry.id
        );
        let is_change = matches!(entry.reason.map(Reason::as_str), Some("create" | "update"));
        let essence = json!({"spec": entry.body["spec"]});
        assert!(
            !is_change || handled != Some(essence),
            "{what}: {} is called for a state that is recorded as handled",
            entry.id
        );
    }
}

#[test]
fn repeated_calls_are_detected() {
    sandboxed(async |stage| {
        let operator = stage.run((C.handlers)()).await;
        let breakpoint = stage.breakpoint(1, Moment::After);
        stage.create("obj", json!({"field": "value"})).await;
        breakpoint.reached().await;
        operator.kill().await;
        // Another client removes the record, so the operator calls the handler again.
        let removed = json!({"metadata": {"annotations": {"kopf.zalando.org/a": null}}});
        stage.merge("obj", removed).await;
        operator.start().await;
        stage.pass(10.0).await;
        let ending = Ending {
            object: Value::Null,
            writes: stage.writes(),
            calls: stage.journal.all(),
            interrupted: true,
        };
        assert_eq!(stage.journal.count("a"), 2);
        let judgement = AssertUnwindSafe(|| check_records(&ending, "removed"));
        let panic = std::panic::catch_unwind(judgement).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("recorded as finished"), "{text}");
    });
}

fn restart_everywhere(trace: Trace, touching: bool) {
    let Some(baseline) = play(trace, touching, None) else {
        return;
    };
    check_records(&baseline, trace.name);
    let count = baseline.writes.len();
    assert!(count > 0);
    for nth in 1..=count {
        for moment in [Moment::Before, Moment::After] {
            let what = format!(
                "{} (touching: {touching}), {moment:?} write {nth}",
                trace.name
            );
            let death = Some((nth as u64, moment));
            let ending = play(trace, touching, death).expect("the uninterrupted trace ran");
            assert!(ending.interrupted, "{what}: the write was not sent");
            check_records(&ending, &what);
            let next = match moment {
                Moment::After => baseline.writes.get(nth),
                _ => baseline.writes.get(nth - 1),
            };
            let lost = without_lost_results(&baseline.object, next);
            let is_same = ending.object == baseline.object || ending.object == lost;
            assert!(
                is_same,
                "{what}: the object is {:#}\ninstead of {:#}",
                ending.object, baseline.object
            );
        }
    }
}

#[test]
fn restart_at_every_write_of_every_trace() {
    for trace in ALL {
        restart_everywhere(trace, false);
    }
}

#[test]
fn restart_at_every_write_of_every_trace_with_touching() {
    for trace in ALL {
        restart_everywhere(trace, true);
    }
}

#[test]
fn interrupted_handler_is_called_again() {
    sandboxed(async |stage| {
        let slow = on::create("slow").does(|_| async {
            tokio::time::sleep(std::time::Duration::from_secs(10)).await;
            gives(json!("done"))
        });
        let operator = stage.run([slow]).await;
        stage.create("obj", json!({})).await;
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        operator.kill().await;
        stage.pass(60.0).await;
        assert!(stage.writes().is_empty());
        operator.start().await;
        stage.pass(60.0).await;
        let retries: Vec<_> = stage.journal.all().iter().map(|e| e.retry).collect();
        assert_eq!(retries, [0, 0], "the first attempt is not recorded");
        assert_eq!(stage.get("obj").await["status"]["slow"], "done");
    });
}
