//! Fields beside the status that a status write of a built-in kind can change.

use kopf_tests::{Api, objects};
use serde_json::{Value, json};

fn with_labels(status: Value) -> Value {
    json!({
        "metadata": {"labels": {"via": "status"}, "annotations": {"via": "status"}},
        "spec": {"replicas": 9},
        "status": status,
    })
}

#[tokio::test]
async fn status_write_ignores_the_labels_of_a_deployment() {
    let api = Api::start().await;
    let all = api.group_path("apps/v1", "deployments");
    let mut object = objects::deployment("one");
    object["metadata"]["labels"] = json!({"own": "label"});
    api.created(&all, &object).await;
    let patch = with_labels(json!({"replicas": 1}));
    let patched = api.merged(&format!("{all}/one/status"), &patch).await;
    assert_eq!(patched.at("/metadata/labels"), &json!({"own": "label"}));
    assert_eq!(patched.at("/metadata/annotations/via"), "status");
    assert_eq!(patched.at("/status/replicas"), 1);
    assert_eq!(patched.at("/spec/replicas"), 1);
    assert_eq!(patched.generation(), 1);
    let stored = api.found(&format!("{all}/one")).await;
    assert_eq!(stored.json, patched.json);
}

#[tokio::test]
async fn status_write_changes_the_labels_of_other_workloads() {
    let api = Api::start().await;
    for (all, object, status) in [
        (
            api.group_path("apps/v1", "statefulsets"),
            objects::stateful_set("one"),
            json!({"replicas": 1}),
        ),
        (
            api.group_path("batch/v1", "jobs"),
            objects::job("one"),
            json!({"active": 1}),
        ),
    ] {
        let made = api.created(&all, &object).await;
        let mut patch = with_labels(status);
        patch["spec"] = json!({"suspend": true, "replicas": 9});
        let patched = api.merged(&format!("{all}/one/status"), &patch).await;
        assert_eq!(patched.at("/metadata/labels/via"), "status");
        assert_eq!(patched.at("/metadata/annotations/via"), "status");
        assert_eq!(patched.json["spec"], made.json["spec"]);
        assert_eq!(patched.generation(), 1);
        let stored = api.found(&format!("{all}/one")).await;
        assert_eq!(stored.json, patched.json);
    }
}

#[tokio::test]
async fn status_write_of_a_pod_keeps_its_owners() {
    let api = Api::start().await;
    let owner = api
        .created(
            &api.ns_path("configmaps"),
            &objects::config_map("owner", json!({})),
        )
        .await;
    let owners = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()},
    ]);
    let mut object = objects::pod("one");
    object["metadata"]["ownerReferences"] = owners.clone();
    api.created(&api.ns_path("pods"), &object).await;
    let patch = json!({
        "metadata": {"ownerReferences": [], "labels": {"via": "status"}},
        "status": {"phase": "Running"},
    });
    let patched = api.merged(&api.ns_path("pods/one/status"), &patch).await;
    assert_eq!(patched.at("/metadata/ownerReferences"), &owners);
    assert_eq!(patched.at("/metadata/labels/via"), "status");
    assert_eq!(patched.at("/status/phase"), "Running");
}
