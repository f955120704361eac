use serde_json::json;

use crate::stage::{OBJECT, Stage};

#[tokio::test]
async fn events_come_as_they_are_and_nothing_is_stored() {
    let stage = Stage::start().await;
    let created = stage.create().await;
    let mut program = stage.run("08-raw-events");
    program.says("] LISTED: kopf-example-1\n").await;
    assert_eq!(stage.object().await, created);
    stage.change(json!({"field": "new"})).await;
    program.says("] MODIFIED: kopf-example-1\n").await;
    stage.delete().await;
    program.says("] DELETED: kopf-example-1\n").await;
    stage.create().await;
    program.says("] ADDED: kopf-example-1\n").await;
    let object = stage.object().await;
    assert_eq!(object["metadata"]["name"], OBJECT);
    assert!(object["status"].is_null(), "{object}");
    program.stop().await;
    stage.finish().await;
}
