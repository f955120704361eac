//! Status conditions: written with the patch of the cycle, and only if they change something.

use jiff::Timestamp;
use kopf_core::conditions::{self, Change, Condition};
use kopf_core::patch::PatchFn;
use kopf_engine::invocation::Call;
use serde_json::{Value, json};

use crate::front::{done, on};
use crate::stage::{everywhere, is_handled, sandboxed};

/// Sets the condition `Ready`, as the extractors of fronts do.
fn set_ready(call: &Call, status: bool, message: &str) {
    let now: Timestamp = call.operator.clock.now();
    let condition = Condition::new("Ready", status.into(), "Tested", message, now).unwrap();
    let generation = call.body().metadata().get("generation");
    let generation = generation.and_then(Value::as_i64);
    let changes = [Change::Set(condition.observed(generation))];
    let function = PatchFn::new("conditions", move |body| {
        Ok(conditions::apply(&changes, body)?)
    });
    call.patch.with(|patch| patch.add_fn(function));
}

#[test]
fn conditions_are_added_to_those_of_others() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            set_ready(&call, true, "fine");
            done()
        });
        let other = json!({"type": "Other", "status": "Unknown", "note": "kept"});
        let parts = json!({"status": {"conditions": [other]}});
        stage.create_with("obj", parts).await;
        let _operator = stage.run([make]).await;
        let object = stage
            .until("obj", "ready", |object| {
                object["status"]["conditions"][1]["type"] == "Ready"
            })
            .await;
        assert_eq!(object["status"]["conditions"][0], other);
        let ready = &object["status"]["conditions"][1];
        assert_eq!(ready["status"], "True");
        assert_eq!(ready["observedGeneration"], 1);
        let time = ready["lastTransitionTime"].as_str().unwrap();
        assert!(time.ends_with('Z') && time.len() == 20, "{time}");
    });
}

#[test]
fn transition_times_change_with_the_status_only() {
    sandboxed(async |stage| {
        let seen = on::update("seen").does(|call| async move {
            let spec = call.body().spec();
            set_ready(&call, spec["ready"] == true, "");
            done()
        });
        let _operator = stage.run([seen]).await;
        stage.create("obj", json!({"ready": true})).await;
        stage.pass(10.0).await;
        let mut times = Vec::new();
        for spec in [json!({"a": 1}), json!({"a": 2}), json!({"ready": false})] {
            stage.merge("obj", json!({"spec": spec})).await;
            stage.pass(10.0).await;
            let object = stage.get("obj").await;
            let ready = object["status"]["conditions"][0].clone();
            assert_eq!(
                ready["observedGeneration"],
                object["metadata"]["generation"]
            );
            times.push(ready["lastTransitionTime"].clone());
        }
        assert_eq!(times[0], times[1]);
        assert_ne!(times[1], times[2]);
    });
}

#[test]
fn equal_conditions_are_not_written() {
    sandboxed(async |stage| {
        let seen = on::event("seen").does(|call| async move {
            set_ready(&call, true, "");
            done()
        });
        let _operator = stage.run([seen]).await;
        stage.create_settled("obj", json!({})).await;
        assert_eq!(stage.writes().len(), 1);
        for label in ["a", "b"] {
            stage
                .merge("obj", json!({"metadata": {"labels": {"x": label}}}))
                .await;
            stage.pass(10.0).await;
        }
        assert!(stage.journal.count("seen") >= 3);
        assert_eq!(stage.writes().len(), 1, "nothing has changed since");
        assert!(!is_handled(&stage.get("obj").await));
    });
}
