use serde_json::json;

use crate::stage::{Stage, only};

#[tokio::test]
async fn each_object_has_one_pod() {
    let crd = only(include_str!("../../simple-deployment/crd.yaml"));
    let stage = Stage::start_with(&[crd]).await;
    let mut program = stage.run("simple-deployment");
    let path = stage.api.group_path("example.org/v1", "simpledeployments");
    let object = only(include_str!("../../simple-deployment/example-01.yaml"));
    let object = stage.api.created(&path, &object).await.json;
    let path = format!("{path}/example-01");
    let handled = stage
        .until(&path, "the result is stored", |object| {
            object["status"]["create_function"]["children"].is_array()
        })
        .await;

    let pods = stage.api.get(&stage.api.ns_path("pods")).await;
    let [pod] = pods.items() else {
        panic!("not one pod: {}", pods.text())
    };
    let metadata = &pod["metadata"];
    assert_eq!(
        handled["status"]["create_function"]["children"],
        json!([metadata["uid"]])
    );
    assert_eq!(metadata["labels"], json!({"app": "simple-app"}));
    assert_eq!(
        metadata["ownerReferences"][0]["uid"],
        object["metadata"]["uid"]
    );
    assert_eq!(
        pod["spec"]["containers"][0]["env"],
        json!([{"name": "SLEEPYTIME", "value": "120"}])
    );

    // There is no update handler: a change does not create a pod.
    let patch = json!({"spec": {"sleepytime": "60"}});
    stage.api.merged(&path, &patch).await;
    let second = json!({
        "apiVersion": "example.org/v1", "kind": "SimpleDeployment",
        "metadata": {"name": "example-02"}, "spec": {},
    });
    let list = stage.api.group_path("example.org/v1", "simpledeployments");
    stage.api.created(&list, &second).await;
    program
        .await_log("/example-02] Creation is processed: 1 succeeded; 0 failed.")
        .await;
    let pods = stage.api.get(&stage.api.ns_path("pods")).await;
    assert_eq!(pods.items().len(), 2, "{}", pods.text());

    stage.api.delete(&path).await.ok();
    stage.gone(&path).await;
    let name = metadata["name"].as_str().unwrap();
    stage
        .gone(&stage.api.ns_path(&format!("pods/{name}")))
        .await;
    let pods = stage.api.get(&stage.api.ns_path("pods")).await;
    assert_eq!(pods.items().len(), 1, "{}", pods.text());
    program.stop().await;
}
