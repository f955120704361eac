use serde_json::json;

use crate::stage::{OBJECT, Stage};

#[tokio::test]
async fn only_those_handlers_are_called_which_are_for_the_object() {
    let stage = Stage::start().await;
    let mut program = stage.run("11-filtering");
    stage.create().await;
    program
        .says("Creation is processed: 5 succeeded; 0 failed.")
        .await;
    for words in [
        "The label is as it should be.",
        "The label is there.",
        "The other label is not there.",
        "The function has agreed.",
        "The field has the value.",
    ] {
        assert!(program.log().contains(words), "{}", program.log());
    }
    stage.change(json!({"field": "changed"})).await;
    program
        .says("The field has changed from the one to the other.")
        .await;
    let log = program.stop().await;
    assert!(!log.contains("This is never said"), "{log}");
    stage.finish().await;
}

#[tokio::test]
async fn an_object_for_which_there_is_nothing_is_not_touched() {
    let stage = Stage::start().await;
    let mut program = stage.run("11-filtering");
    let alone = stage
        .create_changed(|object| {
            object["metadata"] = json!({"name": "other", "labels": {"nolabel": "there"}});
            object["spec"] = json!({"duration": "1h"});
        })
        .await;
    // When the second one is handled, the first one would be, too.
    stage.create().await;
    program
        .says(&format!("/{OBJECT}] Creation is processed: "))
        .await;
    let log = program.stop().await;
    assert!(!log.contains("/other]"), "{log}");
    let found = stage.api.get(&stage.path("other")).await.expect_code(200);
    assert_eq!(found.json, alone);
    stage.finish().await;
}
