use kopf_tests::objects;
use serde_json::json;

use crate::stage::{OBJECT, Stage};

#[tokio::test]
async fn indices_follow_created_and_deleted_pods() {
    let stage = Stage::start().await;
    let path = stage.api.ns_path("pods");
    for (name, label) in [("alike", "somevalue"), ("other", "othervalue")] {
        let mut pod = objects::pod(name);
        pod["metadata"]["labels"] = json!({"somelabel": label});
        stage.api.created(&path, &pod).await;
    }
    let unlabelled = objects::pod("unlabelled");
    stage.api.created(&path, &unlabelled).await;
    stage.create().await;
    let mut program = stage.run("16-indexing");
    program.await_log("1 of 3 pods have the same labels.").await;
    assert_eq!(
        stage.result("look").await,
        json!({"alike": ["alike"], "looks": 1})
    );

    stage.api.delete(&format!("{path}/alike")).await.ok();
    stage.gone(&format!("{path}/alike")).await;
    // Pods and the object have separate watch streams; either can be ahead.
    let mut looks = 1;
    while stage.object().await["status"]["look"]["alike"] != json!([]) {
        looks += 1;
        assert!(looks < 20, "the deleted pod is still in the index");
        stage.change(json!({"field": looks.to_string()})).await;
        stage
            .until(&stage.path(OBJECT), "handled again", |object| {
                object["status"]["look"]["looks"] == looks
            })
            .await;
    }
    program.await_log("0 of 2 pods have the same labels.").await;
    program.stop().await;
    // Existing objects are resumed.
    let mut program = stage.run("16-indexing");
    program.await_log("0 of 2 pods have the same labels.").await;
    stage.delete().await;
    program.stop().await;
}
