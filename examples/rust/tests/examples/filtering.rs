use serde_json::json;

use crate::stage::{OBJECT, Stage};

#[tokio::test]
async fn only_matching_handlers_are_called() {
    let stage = Stage::start().await;
    let mut program = stage.run("11-filtering");
    stage.create().await;
    program
        .await_log("Creation is processed: 5 succeeded; 0 failed.")
        .await;
    for message in [
        "The label has the value.",
        "The label is present.",
        "The other label is absent.",
        "The function has returned true.",
        "The field has the value.",
    ] {
        assert!(program.log().contains(message), "{}", program.log());
    }
    stage.change(json!({"field": "changed"})).await;
    program.await_log("The field has changed.").await;
    let log = program.stop().await;
    assert!(!log.contains("The annotation has another value"), "{log}");
}

#[tokio::test]
async fn object_without_matching_handlers_is_not_modified() {
    let stage = Stage::start().await;
    let mut program = stage.run("11-filtering");
    let alone = stage
        .create_changed(|object| {
            object["metadata"] = json!({"name": "other", "labels": {"otherlabel": "present"}});
            object["spec"] = json!({"duration": "1h"});
        })
        .await;
    // The other object was created earlier: its handlers would have been called by then.
    stage.create().await;
    program
        .await_log(&format!("/{OBJECT}] Creation is processed: "))
        .await;
    let log = program.stop().await;
    assert!(!log.contains("/other]"), "{log}");
    let found = stage.api.found(&stage.path("other")).await;
    assert_eq!(found.json, alone);
}
