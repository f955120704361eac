use serde_json::json;

use crate::stage::{OBJECT, Stage};

#[tokio::test]
async fn each_thing_that_happens_has_its_handler() {
    let stage = Stage::start().await;
    let mut program = stage.run("05-handlers");
    stage.create().await;
    program.says("Creation is processed: ").await;
    let object = stage.handled().await;
    let finalizers = object["metadata"]["finalizers"].as_array().unwrap();
    assert_eq!(finalizers.len(), 1, "{object}");
    let log = program.stop().await;
    for words in [
        "] CREATED\n",
        "] CREATED, too\n",
        "] FIELD: null -> \"value\"\n",
    ] {
        assert!(log.contains(words), "{log}");
    }

    let mut program = stage.run("05-handlers");
    program.says("] RESUMED\n").await;
    stage.change(json!({"field": "new"})).await;
    program.says("Updating is processed: ").await;
    stage.delete().await;
    let log = program.stop().await;
    for words in [
        "] UPDATED: change spec.field: \"value\" -> \"new\"\n",
        "] FIELD: \"value\" -> \"new\"\n",
        "] DELETED\n",
    ] {
        assert!(log.contains(words), "{log}");
    }
    assert!(!log.contains("CREATED"), "{log}");
    stage.finish().await;
}

#[tokio::test]
async fn what_happens_without_the_operator_is_made_up_for() {
    let stage = Stage::start().await;
    stage.create().await;
    let mut program = stage.run("05-handlers");
    program.says("] CREATED\n").await;
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
    program.says("] DELETED\n").await;
    stage.gone(&stage.path(OBJECT)).await;
    program.stop().await;
    stage.finish().await;
}
