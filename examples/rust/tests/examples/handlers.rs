use serde_json::json;

use crate::stage::{OBJECT, Stage};

#[tokio::test]
async fn each_change_calls_its_handlers() {
    let stage = Stage::start().await;
    let mut program = stage.run("05-handlers");
    stage.create().await;
    program.await_log("Creation is processed: ").await;
    let object = stage.handled().await;
    let finalizers = object["metadata"]["finalizers"].as_array().unwrap();
    assert_eq!(finalizers.len(), 1, "{object}");
    let log = program.stop().await;
    for message in [
        "] CREATED\n",
        "] CREATED AGAIN\n",
        "] FIELD: null -> \"value\"\n",
    ] {
        assert!(log.contains(message), "{log}");
    }

    let mut program = stage.run("05-handlers");
    program.await_log("] RESUMED\n").await;
    stage.change(json!({"field": "new"})).await;
    program.await_log("Updating is processed: ").await;
    stage.delete().await;
    let log = program.stop().await;
    for message in [
        "] UPDATED: change spec.field: \"value\" -> \"new\"\n",
        "] FIELD: \"value\" -> \"new\"\n",
        "] DELETED\n",
    ] {
        assert!(log.contains(message), "{log}");
    }
    assert!(!log.contains("CREATED"), "{log}");
}

#[tokio::test]
async fn changes_during_downtime_are_handled() {
    let stage = Stage::start().await;
    stage.create().await;
    let mut program = stage.run("05-handlers");
    program.await_log("] CREATED\n").await;
    stage.handled().await;
    program.stop().await;

    stage.change(json!({"field": "new"})).await;
    let deleting = stage.api.delete(&stage.path(OBJECT)).await.ok();
    assert!(
        deleting.json["metadata"]["deletionTimestamp"].is_string(),
        "{}",
        deleting.text()
    );
    let mut program = stage.run("05-handlers");
    program.await_log("] DELETED\n").await;
    stage.gone(&stage.path(OBJECT)).await;
    program.stop().await;
}
