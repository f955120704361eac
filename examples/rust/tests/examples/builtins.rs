use kopf_tests::objects;

use crate::stage::Stage;

#[tokio::test]
async fn old_pods_are_deleted_except_for_system_pods() {
    let stage = Stage::start().await;
    let (api, path) = (&stage.api, stage.api.ns_path("pods"));
    let system = api.unique("kube-test");
    api.create_namespace(&system).await;
    let protected = format!("/api/v1/namespaces/{system}/pods");
    let untouched = api.create(&protected, &objects::pod("protected")).await;
    let untouched = untouched.expect_code(201).json;

    api.created(&path, &objects::pod("young")).await;
    let hour = [("MAX_AGE", "3600")];
    let mut program = stage.run_with("10-builtins", &["-n", &system], &hour);
    program
        .await_log("/young] Handler 'remove_when_old' failed temporarily: ")
        .await;
    api.found(&format!("{path}/young")).await;
    program.stop().await;

    api.created(&path, &objects::pod("old")).await;
    // The diff-base marks the creation as handled, so the pod is resumed.
    let mut known = objects::pod("known");
    known["metadata"]["annotations"] =
        serde_json::json!({"kopf.zalando.org/last-handled-configuration": "{\"spec\":{}}\n"});
    api.created(&path, &known).await;
    let second = [("MAX_AGE", "1")];
    let mut program = stage.run_with("10-builtins", &["-n", &system], &second);
    stage.gone(&format!("{path}/old")).await;
    stage.gone(&format!("{path}/known")).await;
    program
        .await_log("/old] The pod is too old and is deleted.")
        .await;
    let log = program.stop().await;
    assert!(!log.contains("/protected]"), "{log}");
    let found = api.get(&format!("{protected}/protected")).await;
    let found = found.expect_code(200).json;
    assert_eq!(
        found["metadata"]["annotations"],
        untouched["metadata"]["annotations"]
    );
}
