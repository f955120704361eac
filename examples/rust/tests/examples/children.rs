use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn pod_is_owned_by_the_object_and_deleted_with_it() {
    let stage = Stage::start().await;
    let mut program = stage.run("02-children");
    let object = stage.create().await;
    program
        .await_log("Creation is processed: 1 succeeded; 0 failed.")
        .await;

    let pods = stage.api.get(&stage.api.ns_path("pods")).await;
    let [pod] = pods.items() else {
        panic!("not one pod: {}", pods.text())
    };
    let metadata = &pod["metadata"];
    let name = metadata["name"].as_str().unwrap();
    assert!(name.starts_with("kopf-example-1-"), "{name}");
    assert_eq!(metadata["labels"], json!({"somelabel": "somevalue"}));
    assert_eq!(
        metadata["ownerReferences"][0]["uid"],
        object["metadata"]["uid"]
    );
    let command = &pod["spec"]["containers"][0]["command"];
    assert_eq!(command[3], "sleep 1m", "{command}");
    let result = stage.result("create_pod").await;
    assert_eq!(result, json!({"children": [metadata["uid"]]}));
    assert!(
        program.log().contains(&format!("Pod {name} is created.")),
        "{}",
        program.log()
    );

    stage.delete().await;
    stage
        .gone(&stage.api.ns_path(&format!("pods/{name}")))
        .await;
    program.stop().await;
}

#[tokio::test]
async fn missing_duration_fails_permanently() {
    let stage = Stage::start().await;
    let mut program = stage.run("02-children");
    stage
        .create_changed(|object| object["spec"] = json!({}))
        .await;
    program
        .await_log("Handler 'create_pod' failed permanently: spec.duration must be a string")
        .await;
    program
        .await_log("Creation is processed: 0 succeeded; 1 failed.")
        .await;
    let pods = stage.api.get(&stage.api.ns_path("pods")).await;
    assert_eq!(pods.items().len(), 0, "{}", pods.text());
    program.stop().await;
}
