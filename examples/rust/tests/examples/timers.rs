use serde_json::json;

use crate::stage::{OBJECT, Stage};

#[tokio::test]
async fn timers_are_called_regularly_and_after_changes() {
    let stage = Stage::start().await;
    let mut program = stage.run("15-timers");
    stage.create().await;
    let path = stage.path(OBJECT);
    stage
        .until(&path, "counted", |object| {
            object["status"]["count"].as_u64() >= Some(2)
        })
        .await;
    program.await_log("=> Ping: field=\"value\"").await;
    assert_eq!(stage.result("after_each_change").await, "value");
    stage.change(json!({"field": "other"})).await;
    stage
        .until(&path, "seen again", |object| {
            object["status"]["after_each_change"] == "other"
        })
        .await;
    program.await_log("=> Ping: field=\"other\"").await;
    stage.delete().await;
    program.stop().await;
}
