use serde_json::{Value, json};

use crate::stage::Stage;

#[tokio::test]
async fn child_follows_the_object_and_is_restored() {
    let stage = Stage::start().await;
    let mut program = stage.run("19-reconcile");
    stage.create().await;
    let path = stage.api.ns_path("configmaps/kopf-example-1");
    let has = |field: &'static str| move |object: &Value| object["data"]["field"] == field;
    stage.until(&path, "made", has("value")).await;

    stage.api.deleted(&path).await;
    stage.until(&path, "restored", has("value")).await;
    program
        .await_log("Reconciling kopf-example-1: child.")
        .await;

    stage.change(json!({"field": "other"})).await;
    stage.until(&path, "changed", has("other")).await;
    let object = stage.path("kopf-example-1");
    stage
        .until(&object, "synced", |object| {
            object["status"]["synced"] == "other"
        })
        .await;

    stage.delete().await;
    program.await_log("Goodbye, kopf-example-1.").await;
    program.stop().await;
}
