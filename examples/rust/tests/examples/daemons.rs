use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn daemons_see_changes_and_exit_with_the_object() {
    let stage = Stage::start().await;
    let mut program = stage.run("14-daemons");
    stage.create().await;
    program
        .await_log("Daemon 'background_async' failed temporarily: Not now, but soon.")
        .await;
    program
        .await_log("=> Pinging in a task: field=\"value\"")
        .await;
    program.await_log("=> Pinging in a thread.").await;
    stage.change(json!({"field": "other"})).await;
    program
        .await_log("=> Pinging in a task: field=\"other\"")
        .await;
    stage.delete().await;
    program.await_log("=> Stopped: RESOURCE_DELETED").await;
    program
        .await_log("Daemon 'background_sync' succeeded.")
        .await;
    program.stop().await;
}

#[tokio::test]
async fn daemons_exit_with_the_operator() {
    let stage = Stage::start().await;
    let mut program = stage.run("14-daemons");
    stage.create().await;
    program.await_log("=> Pinging in a thread.").await;
    program.stop().await;
    let status = stage.object().await["status"].take();
    assert_eq!(status["goodbye"], "OPERATOR_EXITING");
    assert!(
        status["background_sync"]["pings"].as_u64() >= Some(1),
        "{status}"
    );
}
