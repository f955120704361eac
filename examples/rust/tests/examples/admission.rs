use http::Method;
use kopf_tests::{PatchType, Server, eventually};
use serde_json::{Value, json};

use crate::stage::{OBJECT, Stage};

/// Skipped on a shared control plane, where the webhooks would affect other tests:
/// tests/e2e/admission.sh runs the example there alone.
#[tokio::test]
async fn objects_are_denied_changed_and_warned_about() {
    if Server::from_env() == Server::ControlPlane {
        return;
    }
    let stage = Stage::start().await;
    let mut program = stage.run("17-admission");
    program
        .await_log("Reconfiguring the validating webhook auto.kopf.dev.")
        .await;
    let objects = stage.api.group_path("kopf.dev/v1", "kopfexamples");
    let wrong = json!({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "wrong"},
        "spec": {"field": "wrong"},
    });
    let denied = eventually("an object to be denied", async || {
        let response = stage.api.create(&objects, &wrong).await;
        (response.code != 201).then_some(response)
    })
    .await;
    assert_eq!(denied.code, 499, "{}", denied.text());
    let message =
        "admission webhook \"check.auto.kopf.dev\" denied the request: This field is wrong.";
    assert_eq!(denied.json["message"], message);

    eventually("the mutating webhook to be called", async || {
        let created = stage
            .create_changed(|object| object["spec"]["duration"] = Value::Null)
            .await;
        let is_changed = created["spec"]["duration"] == "1m";
        if !is_changed {
            stage.delete().await;
        }
        is_changed.then_some(())
    })
    .await;
    assert!(stage.object().await["metadata"]["labels"]["creator"].is_string());

    let path = stage.path(OBJECT);
    let patch = json!({"metadata": {"annotations": {"keep": "yes"}}});
    let kept = stage.api.patch(&path, PatchType::Merge, &patch).await;
    assert_eq!(kept.warnings(), ["the value is the one from the examples"]);
    let delete = || stage.api.request(Method::DELETE, &path);
    let response = delete().header("Impersonate-User", "intern").send().await;
    assert_eq!(response.code, 403, "{}", response.text());
    let status = json!({"status": {"phase": "Broken"}});
    let response = stage.api.merge(&format!("{path}/status"), &status).await;
    assert_eq!(response.code, 422, "{}", response.text());

    program.stop().await;
    stage.api.created(&objects, &wrong).await;
}
