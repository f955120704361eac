//! Binding of pods to nodes, grace periods, and responses to deletions.

use kopf_tests::{Api, PatchType, objects};
use serde_json::json;

#[tokio::test]
async fn binding_assigns_a_pod_to_a_node() {
    let api = Api::start().await;
    let path = api.ns_path("pods/one");
    let mut object = objects::pod("one");
    object["metadata"]["annotations"] = json!({"old": "1", "both": "1"});
    let made = api.created(&api.ns_path("pods"), &object).await;
    assert_eq!(made.generation(), 1);
    let condition = json!({"type": "example.com/Other", "status": "True"});
    api.merged(
        &api.ns_path("pods/one/status"),
        &json!({"status": {"conditions": [condition]}}),
    )
    .await;

    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "one",
            "annotations": {"both": "2", "new": "2"},
            "labels": {"zone": "here"},
        },
        "target": {"kind": "Node", "name": "nowhere"},
    });
    let bound = api
        .created(&api.ns_path("pods/one/binding"), &binding)
        .await;
    assert_eq!(bound.json["kind"], "Status");
    assert_eq!(bound.json["status"], "Success");
    let pod = api.found(&path).await;
    assert_eq!(pod.at("/spec/nodeName"), "nowhere");
    assert_eq!(
        pod.at("/metadata/annotations"),
        &json!({"old": "1", "both": "2", "new": "2"})
    );
    assert_eq!(pod.at("/metadata/labels"), &json!({"zone": "here"}));
    let conditions = pod.at("/status/conditions").as_array().unwrap();
    let types: Vec<_> = conditions.iter().map(|c| &c["type"]).collect();
    assert_eq!(types, ["example.com/Other", "PodScheduled"]);
    assert_eq!(conditions[1]["status"], "True");
    assert!(conditions[1]["lastTransitionTime"].is_string());
    assert_eq!(pod.generation(), 1);

    let again = api
        .create(&api.ns_path("pods/one/binding"), &binding)
        .await
        .expect_failure(409, "Conflict");
    assert_eq!(
        again.message(),
        "Operation cannot be fulfilled on pods/binding \"one\": pod one is already assigned to \
         node \"nowhere\""
    );
    let unchanged = api.found(&path).await;
    assert_eq!(unchanged.json, pod.json);
    api.delete_with(&path, &json!({"gracePeriodSeconds": 0}))
        .await
        .expect_code(200);
}

#[tokio::test]
async fn binding_of_a_missing_pod_is_rejected() {
    let api = Api::start().await;
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "one"},
        "target": {"kind": "Node", "name": "nowhere"},
    });
    let refused = api.create(&api.ns_path("pods/one/binding"), &binding).await;
    refused.expect_failure(404, "NotFound");
}

#[tokio::test]
async fn negative_grace_period_of_a_bound_pod_is_one_second() {
    let api = Api::start().await;
    let path = api.ns_path("pods/one");
    let mut object = objects::pod("one");
    object["spec"]["nodeName"] = json!("nowhere");
    api.created(&api.ns_path("pods"), &object).await;
    let deleted = api
        .delete_with(&path, &json!({"gracePeriodSeconds": -5}))
        .await
        .expect_code(200);
    assert_eq!(deleted.at("/metadata/deletionGracePeriodSeconds"), 1);
    assert!(deleted.at("/metadata/deletionTimestamp").is_string());
    api.delete_with(&path, &json!({"gracePeriodSeconds": 0}))
        .await
        .expect_code(200);
}

#[tokio::test]
async fn grace_period_without_a_deletion_is_ignored() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    for (all, object) in [
        (
            api.ns_path("configmaps"),
            objects::config_map("one", json!({})),
        ),
        (api.ns_path("pods"), objects::pod("one")),
        (crd.path(), crd.object("one", json!({}))),
    ] {
        let mut made = api.created(&all, &object).await;
        let path = format!("{all}/one");
        let patch = json!({"metadata": {"deletionGracePeriodSeconds": 5}});
        made.json["metadata"]["deletionGracePeriodSeconds"] = json!(5);
        for refused in [
            api.merge(&path, &patch).await,
            api.put(&path, &made.json).await,
        ] {
            let refused = refused.expect_failure(422, "Invalid");
            let field = "metadata.deletionGracePeriodSeconds";
            assert_eq!(refused.causes()[0], ("FieldValueInvalid", field));
        }
        let read = api.found(&path).await;
        assert!(read.at("/metadata/deletionGracePeriodSeconds").is_null());
    }
}

#[tokio::test]
async fn deletion_of_a_storage_class_returns_the_object() {
    let api = Api::start().await;
    let all = "/apis/storage.k8s.io/v1/storageclasses";
    let name = api.unique("class");
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.com/disks",
    });
    let made = api.created(all, &class).await;
    let path = format!("{all}/{name}");
    let deleted = api.deleted(&path).await;
    assert_eq!(deleted.json["kind"], "StorageClass");
    assert_eq!(deleted.uid(), made.uid());
    assert_eq!(deleted.json["provisioner"], "example.com/disks");
    api.get(&path).await.expect_failure(404, "NotFound");
}

#[tokio::test]
async fn ephemeral_containers_can_only_be_added() {
    let api = Api::start().await;
    let path = api.ns_path("pods/one/ephemeralcontainers");
    let pod = objects::pod("one");
    api.created(&api.ns_path("pods"), &pod).await;
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}});
    let patched = api.patched(&path, PatchType::Strategic, &debug).await;
    assert_eq!(patched.at("/spec/ephemeralContainers/0/name"), "debug");
    assert_eq!(patched.generation(), 2);
    let changed = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "other"}]}});
    api.patch(&path, PatchType::Strategic, &changed)
        .await
        .expect_failure(422, "Invalid");
    let elsewhere = json!({"metadata": {"labels": {"a": "b"}}});
    let same = api.merged(&path, &elsewhere).await;
    assert_eq!(same.at("/metadata/labels"), &json!(null));
}

#[tokio::test]
async fn containers_are_resized() {
    let api = Api::start().await;
    let path = api.ns_path("pods/one/resize");
    let mut pod = objects::pod("one");
    let name = pod["spec"]["containers"][0]["name"].clone();
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    api.created(&api.ns_path("pods"), &pod).await;
    let larger = json!({"spec": {"containers": [
        {"name": name, "image": "ignored", "resources": {"requests": {"cpu": "2"}}},
    ]}});
    let resized = api.patched(&path, PatchType::Strategic, &larger).await;
    assert_eq!(resized.at("/spec/containers/0/resources/requests/cpu"), "2");
    assert_eq!(
        resized.at("/spec/containers/0/image"),
        &pod["spec"]["containers"][0]["image"]
    );
    // Not by a write to the pod itself.
    let direct = json!({"spec": {"containers": [
        {"name": name, "resources": {"requests": {"cpu": "3"}}},
    ]}});
    api.patch(&api.ns_path("pods/one"), PatchType::Strategic, &direct)
        .await
        .expect_failure(422, "Invalid");
}
