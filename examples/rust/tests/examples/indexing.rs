use kopf_tests::objects;
use serde_json::json;

use crate::stage::{OBJECT, Stage};

#[tokio::test]
async fn pods_are_looked_up_without_being_asked_for() {
    let stage = Stage::start().await;
    let path = stage.api.ns_path("pods");
    for (name, label) in [("alike", "somevalue"), ("other", "othervalue")] {
        let mut pod = objects::pod(name);
        pod["metadata"]["labels"] = json!({"somelabel": label});
        stage.api.create(&path, &pod).await.expect_code(201);
    }
    let unlabelled = objects::pod("unlabelled");
    stage.api.create(&path, &unlabelled).await.expect_code(201);
    stage.create().await;
    let mut program = stage.run("16-indexing");
    program.says("1 of 3 pods are labelled alike.").await;
    assert_eq!(
        stage.result("look").await,
        json!({"alike": ["alike"], "looks": 1})
    );

    stage.api.delete(&format!("{path}/alike")).await.ok();
    stage.gone(&format!("{path}/alike")).await;
    // The operator learns of pods and of the object in two streams: either can be ahead.
    let mut looks = 1;
    while stage.object().await["status"]["look"]["alike"] != json!([]) {
        looks += 1;
        assert!(looks < 20, "the pod that is gone is still in the index");
        stage.change(json!({"field": looks.to_string()})).await;
        stage
            .until(&stage.path(OBJECT), "looked at again", |object| {
                object["status"]["look"]["looks"] == looks
            })
            .await;
    }
    program.says("0 of 2 pods are labelled alike.").await;
    program.stop().await;
    // What is there already is looked at, too.
    let mut program = stage.run("16-indexing");
    program.says("0 of 2 pods are labelled alike.").await;
    stage.delete().await;
    program.stop().await;
    stage.finish().await;
}
