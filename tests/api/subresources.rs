//! `status` and `scale`: the fields that each endpoint can change.

use kopf_tests::{Api, PatchType, objects};
use serde_json::json;

#[tokio::test]
async fn status_write_ignores_the_spec_of_a_custom_object() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let made = api
        .create(&crd.path(), &crd.object("one", json!({"a": 1})))
        .await
        .expect_code(201);

    let mut update = made.json.clone();
    update["spec"] = json!({"a": 2});
    update["status"] = json!({"phase": "Ready"});
    let updated = api
        .put(&crd.path_of("one/status"), &update)
        .await
        .expect_code(200);
    assert_eq!(updated.json["spec"], json!({"a": 1}));
    assert_eq!(updated.json["status"], json!({"phase": "Ready"}));
    assert_eq!(updated.generation(), 1);
    assert_ne!(updated.resource_version(), made.resource_version());

    let patch = json!({"spec": {"a": 3}, "status": {"extra": true}});
    let patched = api
        .merge(&crd.path_of("one/status"), &patch)
        .await
        .expect_code(200);
    assert_eq!(patched.json["spec"], json!({"a": 1}));
    assert_eq!(
        patched.json["status"],
        json!({"phase": "Ready", "extra": true})
    );
    api.finish().await;
}

#[tokio::test]
async fn main_write_ignores_the_status_of_a_custom_object() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    api.create(&crd.path(), &crd.object("one", json!({"a": 1})))
        .await
        .expect_code(201);
    let status = json!({"status": {"phase": "Ready"}});
    let current = api
        .merge(&crd.path_of("one/status"), &status)
        .await
        .expect_code(200);

    let mut update = current.json.clone();
    update["spec"] = json!({"a": 2});
    update["status"] = json!({"phase": "Forged"});
    let updated = api.put(&crd.path_of("one"), &update).await.expect_code(200);
    assert_eq!(updated.json["spec"], json!({"a": 2}));
    assert_eq!(updated.json["status"], json!({"phase": "Ready"}));

    let patch = json!({"spec": {"a": 3}, "status": null});
    let patched = api
        .merge(&crd.path_of("one"), &patch)
        .await
        .expect_code(200);
    assert_eq!(patched.json["spec"], json!({"a": 3}));
    assert_eq!(patched.json["status"], json!({"phase": "Ready"}));
    api.finish().await;
}

#[tokio::test]
async fn status_of_a_creation_is_dropped() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let mut object = crd.object("one", json!({}));
    object["status"] = json!({"phase": "Forged"});
    let made = api.create(&crd.path(), &object).await.expect_code(201);
    assert!(made.json["status"].is_null());

    let mut deployment = objects::deployment("one");
    deployment["status"] = json!({"replicas": 7});
    let path = api.group_path("apps/v1", "deployments");
    let made = api.create(&path, &deployment).await.expect_code(201);
    assert!(made.at("/status/replicas").is_null());
    api.finish().await;
}

#[tokio::test]
async fn status_without_its_subresource_is_a_plain_field() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let mut object = crd.object("one", json!({}));
    object["status"] = json!({"phase": "New"});
    let made = api.create(&crd.path(), &object).await.expect_code(201);
    assert_eq!(made.json["status"], json!({"phase": "New"}));
    let patch = json!({"status": {"phase": "Old"}});
    let patched = api
        .merge(&crd.path_of("one"), &patch)
        .await
        .expect_code(200);
    assert_eq!(patched.json["status"], json!({"phase": "Old"}));
    api.get(&crd.path_of("one/status")).await.expect_code(404);
    api.merge(&crd.path_of("one/status"), &patch)
        .await
        .expect_code(404);
    api.get(&crd.path_of("one/scale")).await.expect_code(404);
    api.finish().await;
}

#[tokio::test]
async fn status_write_ignores_the_labels_of_a_custom_object() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let mut object = crd.object("one", json!({}));
    object["metadata"]["labels"] = json!({"kept": "1"});
    api.create(&crd.path(), &object).await.expect_code(201);
    let patch = json!({
        "metadata": {"labels": {"kept": "2", "new": "1"}, "annotations": {"new": "1"}},
        "status": {"phase": "Ready"},
    });
    let patched = api
        .merge(&crd.path_of("one/status"), &patch)
        .await
        .expect_code(200);
    assert_eq!(patched.at("/metadata/labels"), &json!({"kept": "1"}));
    assert!(patched.at("/metadata/annotations").is_null());
    assert_eq!(patched.json["status"], json!({"phase": "Ready"}));
    api.finish().await;
}

#[tokio::test]
async fn spec_and_status_of_a_deployment_are_written_separately() {
    let api = Api::start().await;
    let main = api.group_path("apps/v1", "deployments/one");
    let status = format!("{main}/status");
    let path = api.group_path("apps/v1", "deployments");
    api.create(&path, &objects::deployment("one"))
        .await
        .expect_code(201);

    let patch = json!({"spec": {"replicas": 5}, "status": {"replicas": 3}});
    let patched = api.merge(&status, &patch).await.expect_code(200);
    assert_eq!(patched.at("/spec/replicas"), 1);
    assert_eq!(patched.at("/status/replicas"), 3);
    assert_eq!(patched.generation(), 1);

    let patch = json!({"spec": {"replicas": 5}, "status": {"replicas": 4}});
    let patched = api.merge(&main, &patch).await.expect_code(200);
    assert_eq!(patched.at("/spec/replicas"), 5);
    assert_eq!(patched.at("/status/replicas"), 3);
    assert_eq!(patched.generation(), 2);

    let read = api.get(&status).await.expect_code(200);
    assert_eq!(read.json["kind"], "Deployment");
    assert_eq!(read.at("/status/replicas"), 3);
    api.finish().await;
}

#[tokio::test]
async fn phase_of_a_pod_is_written_through_its_status() {
    let api = Api::start().await;
    api.create(&api.ns_path("pods"), &objects::pod("one"))
        .await
        .expect_code(201);
    let patch = json!({"status": {"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True"},
    ]}});
    let path = api.ns_path("pods/one/status");
    let patched = api
        .patch(&path, PatchType::Strategic, &patch)
        .await
        .expect_code(200);
    assert_eq!(patched.at("/status/phase"), "Running");
    let more = json!({"status": {"conditions": [{"type": "Initialized", "status": "True"}]}});
    let patched = api
        .patch(&path, PatchType::Strategic, &more)
        .await
        .expect_code(200);
    let conditions = patched.at("/status/conditions").as_array().unwrap();
    let mut types: Vec<_> = conditions
        .iter()
        .map(|c| c["type"].as_str().unwrap())
        .collect();
    types.sort_unstable();
    assert_eq!(types, ["Initialized", "Ready"]);
    api.finish().await;
}

#[tokio::test]
async fn scale_of_a_deployment_is_a_view_of_its_replicas() {
    let api = Api::start().await;
    let main = api.group_path("apps/v1", "deployments/one");
    let scale = format!("{main}/scale");
    let path = api.group_path("apps/v1", "deployments");
    let made = api
        .create(&path, &objects::deployment("one"))
        .await
        .expect_code(201);

    let read = api.get(&scale).await.expect_code(200);
    assert_eq!(read.json["kind"], "Scale");
    assert_eq!(read.json["apiVersion"], "autoscaling/v1");
    assert_eq!(read.name(), "one");
    assert_eq!(read.uid(), made.uid());
    assert_eq!(read.resource_version(), made.resource_version());
    assert_eq!(read.at("/spec/replicas"), 1);
    assert_eq!(read.at("/status/selector"), "app=one");

    let mut update = read.json.clone();
    update["spec"]["replicas"] = json!(4);
    let updated = api.put(&scale, &update).await.expect_code(200);
    assert_eq!(updated.json["kind"], "Scale");
    assert_eq!(updated.at("/spec/replicas"), 4);
    let deployment = api.get(&main).await.expect_code(200);
    assert_eq!(deployment.at("/spec/replicas"), 4);
    assert_eq!(deployment.generation(), 2);

    api.put(&scale, &update)
        .await
        .expect_failure(409, "Conflict");
    let patched = api
        .merge(&scale, &json!({"spec": {"replicas": 2}}))
        .await
        .expect_code(200);
    assert_eq!(patched.at("/spec/replicas"), 2);
    assert_eq!(api.get(&main).await.at("/spec/replicas"), 2);
    api.finish().await;
}

#[tokio::test]
async fn scale_of_a_custom_object_uses_the_paths_of_its_crd() {
    let api = Api::start().await;
    let crd = api.crd().with_status().with_scale().create().await;
    api.create(&crd.path(), &crd.object("one", json!({"replicas": 3})))
        .await
        .expect_code(201);
    let status = json!({"status": {"replicas": 2, "selector": "app=one"}});
    api.merge(&crd.path_of("one/status"), &status)
        .await
        .expect_code(200);

    let scale = crd.path_of("one/scale");
    let read = api.get(&scale).await.expect_code(200);
    assert_eq!(read.json["kind"], "Scale");
    assert_eq!(read.json["apiVersion"], "autoscaling/v1");
    assert_eq!(read.json["spec"], json!({"replicas": 3}));
    assert_eq!(
        read.json["status"],
        json!({"replicas": 2, "selector": "app=one"})
    );

    let patched = api
        .merge(&scale, &json!({"spec": {"replicas": 7}}))
        .await
        .expect_code(200);
    assert_eq!(patched.at("/spec/replicas"), 7);
    let object = api.get(&crd.path_of("one")).await.expect_code(200);
    assert_eq!(object.at("/spec/replicas"), 7);
    assert_eq!(object.at("/status/replicas"), 2);
    assert_eq!(object.generation(), 2);
    api.finish().await;
}

#[tokio::test]
async fn negative_scale_is_rejected() {
    let api = Api::start().await;
    let path = api.group_path("apps/v1", "deployments");
    api.create(&path, &objects::deployment("one"))
        .await
        .expect_code(201);
    let scale = api.group_path("apps/v1", "deployments/one/scale");
    let response = api.merge(&scale, &json!({"spec": {"replicas": -1}})).await;
    let response = response.expect_failure(422, "Invalid");
    assert_eq!(response.causes(), [("FieldValueInvalid", "spec.replicas")]);
    api.finish().await;
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
    api.finish().await;
}
