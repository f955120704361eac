use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn daemons_see_changes_and_end_with_the_object() {
    let stage = Stage::start().await;
    let mut program = stage.run("14-daemons");
    stage.create().await;
    program
        .says("Daemon 'background_async' failed temporarily: Not now, but soon.")
        .await;
    program.says("=> Pinging in a task: field=\"value\"").await;
    program.says("=> Pinging in a thread.").await;
    stage.change(json!({"field": "other"})).await;
    program.says("=> Pinging in a task: field=\"other\"").await;
    stage.delete().await;
    program.says("=> Told to end: RESOURCE_DELETED").await;
    program.says("Daemon 'background_sync' succeeded.").await;
    program.stop().await;
    stage.finish().await;
}

#[tokio::test]
async fn daemons_end_with_the_operator() {
    let stage = Stage::start().await;
    let mut program = stage.run("14-daemons");
    stage.create().await;
    program.says("=> Pinging in a thread.").await;
    program.stop().await;
    let status = stage.object().await["status"].take();
    assert_eq!(status["goodbye"], "OPERATOR_EXITING");
    assert!(
        status["background_sync"]["pings"].as_u64() >= Some(1),
        "{status}"
    );
    stage.finish().await;
}
