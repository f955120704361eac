use http::Method;
use kopf_tests::{PatchType, Server, eventually};
use serde_json::{Value, json};

use crate::stage::{OBJECT, Stage};

/// On a server that all tests share, its webhooks would be for the objects of all others: there, it is
/// tests/e2e/admission.sh that runs it, alone.
#[tokio::test]
async fn objects_are_denied_changed_and_warned_of() {
    if Server::from_env() == Server::ControlPlane {
        return;
    }
    let stage = Stage::start().await;
    let mut program = stage.run("17-admission");
    program
        .says("Reconfiguring the validating webhook auto.kopf.dev.")
        .await;
    let objects = stage.api.group_path("kopf.dev/v1", "kopfexamples");
    let wrong = json!({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "wrong"},
        "spec": {"field": "wrong"},
    });
    let denied = eventually("an object to be denied", async || {
        let answer = stage.api.create(&objects, &wrong).await;
        (answer.code != 201).then_some(answer)
    })
    .await;
    assert_eq!(denied.code, 499, "{}", denied.text());
    let message =
        "admission webhook \"check.auto.kopf.dev\" denied the request: This field is wrong.";
    assert_eq!(denied.json["message"], message);

    eventually("the mutating webhook to be asked, too", async || {
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
    let answer = delete().header("Impersonate-User", "somebody").send().await;
    assert_eq!(answer.code, 403, "{}", answer.text());
    let status = json!({"status": {"phase": "Broken"}});
    let answer = stage.api.merge(&format!("{path}/status"), &status).await;
    assert_eq!(answer.code, 422, "{}", answer.text());

    program.stop().await;
    stage.api.create(&objects, &wrong).await.expect_code(201);
    stage.finish().await;
}
