//! `status` and `scale`: the fields that each endpoint can change.

use kopf_tests::{Api, PatchType, objects};
use serde_json::json;

#[tokio::test]
async fn status_write_ignores_the_spec_of_a_custom_object() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let made = crd.created("one", json!({"a": 1})).await;

    let mut update = made.json.clone();
    update["spec"] = json!({"a": 2});
    update["status"] = json!({"phase": "Ready"});
    let updated = api.replaced(&crd.path_of("one/status"), &update).await;
    assert_eq!(updated.json["spec"], json!({"a": 1}));
    assert_eq!(updated.json["status"], json!({"phase": "Ready"}));
    assert_eq!(updated.generation(), 1);
    assert_ne!(updated.resource_version(), made.resource_version());

    let patch = json!({"spec": {"a": 3}, "status": {"extra": true}});
    let patched = crd.merged("one/status", &patch).await;
    assert_eq!(patched.json["spec"], json!({"a": 1}));
    assert_eq!(
        patched.json["status"],
        json!({"phase": "Ready", "extra": true})
    );
}

#[tokio::test]
async fn main_write_ignores_the_status_of_a_custom_object() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    crd.created("one", json!({"a": 1})).await;
    let status = json!({"status": {"phase": "Ready"}});
    let current = crd.merged("one/status", &status).await;

    let mut update = current.json.clone();
    update["spec"] = json!({"a": 2});
    update["status"] = json!({"phase": "Forged"});
    let updated = api.replaced(&crd.path_of("one"), &update).await;
    assert_eq!(updated.json["spec"], json!({"a": 2}));
    assert_eq!(updated.json["status"], json!({"phase": "Ready"}));

    let patch = json!({"spec": {"a": 3}, "status": null});
    let patched = crd.merged("one", &patch).await;
    assert_eq!(patched.json["spec"], json!({"a": 3}));
    assert_eq!(patched.json["status"], json!({"phase": "Ready"}));
}

#[tokio::test]
async fn status_of_a_creation_is_dropped() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let mut object = crd.object("one", json!({}));
    object["status"] = json!({"phase": "Forged"});
    let made = api.created(&crd.path(), &object).await;
    assert!(made.json["status"].is_null());

    let mut deployment = objects::deployment("one");
    deployment["status"] = json!({"replicas": 7});
    let path = api.group_path("apps/v1", "deployments");
    let made = api.created(&path, &deployment).await;
    assert!(made.at("/status/replicas").is_null());
}

#[tokio::test]
async fn status_without_its_subresource_is_a_plain_field() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let mut object = crd.object("one", json!({}));
    object["status"] = json!({"phase": "New"});
    let made = api.created(&crd.path(), &object).await;
    assert_eq!(made.json["status"], json!({"phase": "New"}));
    let patch = json!({"status": {"phase": "Old"}});
    let patched = crd.merged("one", &patch).await;
    assert_eq!(patched.json["status"], json!({"phase": "Old"}));
    api.get(&crd.path_of("one/status")).await.expect_code(404);
    api.merge(&crd.path_of("one/status"), &patch)
        .await
        .expect_code(404);
    api.get(&crd.path_of("one/scale")).await.expect_code(404);
}

#[tokio::test]
async fn status_write_ignores_the_labels_of_a_custom_object() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let mut object = crd.object("one", json!({}));
    object["metadata"]["labels"] = json!({"kept": "1"});
    api.created(&crd.path(), &object).await;
    let patch = json!({
        "metadata": {"labels": {"kept": "2", "new": "1"}, "annotations": {"new": "1"}},
        "status": {"phase": "Ready"},
    });
    let patched = crd.merged("one/status", &patch).await;
    assert_eq!(patched.at("/metadata/labels"), &json!({"kept": "1"}));
    assert!(patched.at("/metadata/annotations").is_null());
    assert_eq!(patched.json["status"], json!({"phase": "Ready"}));
}

#[tokio::test]
async fn spec_and_status_of_a_deployment_are_written_separately() {
    let api = Api::start().await;
    let main = api.group_path("apps/v1", "deployments/one");
    let status = format!("{main}/status");
    let path = api.group_path("apps/v1", "deployments");
    api.created(&path, &objects::deployment("one")).await;

    let patch = json!({"spec": {"replicas": 5}, "status": {"replicas": 3}});
    let patched = api.merged(&status, &patch).await;
    assert_eq!(patched.at("/spec/replicas"), 1);
    assert_eq!(patched.at("/status/replicas"), 3);
    assert_eq!(patched.generation(), 1);

    let patch = json!({"spec": {"replicas": 5}, "status": {"replicas": 4}});
    let patched = api.merged(&main, &patch).await;
    assert_eq!(patched.at("/spec/replicas"), 5);
    assert_eq!(patched.at("/status/replicas"), 3);
    assert_eq!(patched.generation(), 2);

    let read = api.found(&status).await;
    assert_eq!(read.json["kind"], "Deployment");
    assert_eq!(read.at("/status/replicas"), 3);
}

#[tokio::test]
async fn phase_of_a_pod_is_written_through_its_status() {
    let api = Api::start().await;
    api.created(&api.ns_path("pods"), &objects::pod("one"))
        .await;
    let patch = json!({"status": {"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True"},
    ]}});
    let path = api.ns_path("pods/one/status");
    let patched = api.patched(&path, PatchType::Strategic, &patch).await;
    assert_eq!(patched.at("/status/phase"), "Running");
    let more = json!({"status": {"conditions": [{"type": "Initialized", "status": "True"}]}});
    let patched = api.patched(&path, PatchType::Strategic, &more).await;
    let conditions = patched.at("/status/conditions").as_array().unwrap();
    let mut types: Vec<_> = conditions
        .iter()
        .map(|c| c["type"].as_str().unwrap())
        .collect();
    types.sort_unstable();
    assert_eq!(types, ["Initialized", "Ready"]);
}

#[tokio::test]
async fn scale_of_a_deployment_is_a_view_of_its_replicas() {
    let api = Api::start().await;
    let main = api.group_path("apps/v1", "deployments/one");
    let scale = format!("{main}/scale");
    let path = api.group_path("apps/v1", "deployments");
    let made = api.created(&path, &objects::deployment("one")).await;

    let read = api.found(&scale).await;
    assert_eq!(read.json["kind"], "Scale");
    assert_eq!(read.json["apiVersion"], "autoscaling/v1");
    assert_eq!(read.name(), "one");
    assert_eq!(read.uid(), made.uid());
    assert_eq!(read.resource_version(), made.resource_version());
    assert_eq!(read.at("/spec/replicas"), 1);
    assert_eq!(read.at("/status/selector"), "app=one");

    let mut update = read.json.clone();
    update["spec"]["replicas"] = json!(4);
    let updated = api.replaced(&scale, &update).await;
    assert_eq!(updated.json["kind"], "Scale");
    assert_eq!(updated.at("/spec/replicas"), 4);
    let deployment = api.found(&main).await;
    assert_eq!(deployment.at("/spec/replicas"), 4);
    assert_eq!(deployment.generation(), 2);

    api.put(&scale, &update)
        .await
        .expect_failure(409, "Conflict");
    let patched = api.merged(&scale, &json!({"spec": {"replicas": 2}})).await;
    assert_eq!(patched.at("/spec/replicas"), 2);
    assert_eq!(api.get(&main).await.at("/spec/replicas"), 2);
}

#[tokio::test]
async fn scale_of_a_custom_object_uses_the_paths_of_its_crd() {
    let api = Api::start().await;
    let crd = api.crd().with_status().with_scale().create().await;
    crd.created("one", json!({"replicas": 3})).await;
    let status = json!({"status": {"replicas": 2, "selector": "app=one"}});
    crd.merged("one/status", &status).await;

    let scale = crd.path_of("one/scale");
    let read = api.found(&scale).await;
    assert_eq!(read.json["kind"], "Scale");
    assert_eq!(read.json["apiVersion"], "autoscaling/v1");
    assert_eq!(read.json["spec"], json!({"replicas": 3}));
    assert_eq!(
        read.json["status"],
        json!({"replicas": 2, "selector": "app=one"})
    );

    let patched = api.merged(&scale, &json!({"spec": {"replicas": 7}})).await;
    assert_eq!(patched.at("/spec/replicas"), 7);
    let object = crd.found("one").await;
    assert_eq!(object.at("/spec/replicas"), 7);
    assert_eq!(object.at("/status/replicas"), 2);
    assert_eq!(object.generation(), 2);
}

#[tokio::test]
async fn negative_scale_is_rejected() {
    let api = Api::start().await;
    let path = api.group_path("apps/v1", "deployments");
    api.created(&path, &objects::deployment("one")).await;
    let scale = api.group_path("apps/v1", "deployments/one/scale");
    let response = api.merge(&scale, &json!({"spec": {"replicas": -1}})).await;
    let response = response.expect_failure(422, "Invalid");
    assert_eq!(response.causes(), [("FieldValueInvalid", "spec.replicas")]);
}

#[tokio::test]
async fn subresources_of_missing_objects_are_not_found() {
    let api = Api::start().await;
    let crd = api.crd().with_status().with_scale().create().await;
    for path in [
        crd.path_of("none/status"),
        crd.path_of("none/scale"),
        api.group_path("apps/v1", "deployments/none/status"),
        api.group_path("apps/v1", "deployments/none/scale"),
    ] {
        api.get(&path).await.expect_failure(404, "NotFound");
        api.merge(&path, &json!({"spec": {}}))
            .await
            .expect_failure(404, "NotFound");
    }
}
