//! `metadata.managedFields`: dropped by default, and kept for operators that request them.

use serde_json::{Value, json};

use crate::front::{Declaration, on};
use crate::stage::{Stage, everywhere, last_handled};

fn handlers() -> [Declaration; 4] {
    [
        on::event("seen"),
        on::create("made"),
        on::update("updated"),
        on::resume("resumed"),
    ]
}

/// The managers in the bodies of all calls of a handler.
fn managers(stage: &Stage, id: &str) -> Vec<usize> {
    let count = |body: &Value| {
        let managers = body["metadata"]["managedFields"].as_array();
        managers.map_or(0, Vec::len)
    };
    let calls = stage.journal.of(id);
    calls.iter().map(|entry| count(&entry.body)).collect()
}

async fn change(stage: &Stage) {
    stage.create_handled("obj", json!({"field": 1})).await;
    stage.merge("obj", json!({"spec": {"field": 2}})).await;
    stage.until_settled("obj").await;
}

#[test]
fn managed_fields_are_dropped_by_default() {
    everywhere(async |stage| {
        let operator = stage.run(handlers()).await;
        change(stage).await;
        operator.restart().await;
        stage
            .until_so("the resuming", || stage.journal.count("resumed") == 1)
            .await;
        let object = stage.get("obj").await;
        assert_ne!(object["metadata"]["managedFields"], Value::Null);
        for id in ["seen", "made", "updated", "resumed"] {
            let managers = managers(stage, id);
            assert!(
                managers.iter().all(|count| *count == 0),
                "{id}: {managers:?}"
            );
        }
    });
}

#[test]
fn managed_fields_are_kept_on_request() {
    everywhere(async |stage| {
        let setup = stage.operator(handlers()).keeps_managed_fields();
        let operator = setup.start().await;
        change(stage).await;
        operator.restart().await;
        stage
            .until_so("the resuming", || stage.journal.count("resumed") == 1)
            .await;
        for id in ["seen", "made", "updated", "resumed"] {
            let managers = managers(stage, id);
            assert!(
                managers.iter().all(|count| *count > 0),
                "{id}: {managers:?}"
            );
        }
        let updated = stage.journal.only("updated");
        let diff = json!([["change", ["spec", "field"], 1, 2]]);
        assert_eq!(updated.diff, diff);
        assert_eq!(updated.new, json!({"spec": {"field": 2}}));
        let essence = last_handled(&stage.get("obj").await);
        assert_eq!(essence, json!({"spec": {"field": 2}}));
    });
}

#[test]
fn transformations_see_the_same_managed_fields_as_handlers() {
    everywhere(async |stage| {
        let made = on::create("made").does(|call| async move {
            call.patch.with(|patch| {
                patch.status_mut().insert("merged".into(), json!(true));
                patch.add_fn(kopf_core::patch::PatchFn::new("count", |body| {
                    let managers = body["metadata"]["managedFields"].as_array();
                    let count = managers.map_or(0, Vec::len);
                    body["status"]["managers"] = json!(count);
                    Ok(())
                }));
            });
            crate::front::done()
        });
        let setup = stage.operator([made]).keeps_managed_fields();
        let _operator = setup.start().await;
        stage.create("obj", json!({"field": 1})).await;
        let is_counted = |object: &Value| object["status"]["managers"].is_u64();
        let object = stage.until("obj", "counted", is_counted).await;
        assert!(
            object["status"]["managers"].as_u64() > Some(0),
            "{object:#}"
        );
    });
}
