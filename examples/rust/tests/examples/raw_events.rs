use serde_json::json;

use crate::stage::{OBJECT, Stage};

#[tokio::test]
async fn events_are_handled_and_objects_are_not_changed() {
    let stage = Stage::start().await;
    let created = stage.create().await;
    let mut program = stage.run("08-raw-events");
    program.await_log("] LISTED: kopf-example-1\n").await;
    assert_eq!(stage.object().await, created);
    stage.change(json!({"field": "new"})).await;
    program.await_log("] MODIFIED: kopf-example-1\n").await;
    stage.delete().await;
    program.await_log("] DELETED: kopf-example-1\n").await;
    stage.create().await;
    program.await_log("] ADDED: kopf-example-1\n").await;
    let object = stage.object().await;
    assert_eq!(object["metadata"]["name"], OBJECT);
    assert!(object["status"].is_null(), "{object}");
    program.stop().await;
}
