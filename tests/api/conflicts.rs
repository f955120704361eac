//! Optimistic locking and conflicting writes.

use futures::future::join_all;
use kopf_tests::{Api, PatchType, objects, with_query};
use serde_json::json;

#[tokio::test]
async fn update_of_an_old_version_is_a_conflict() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let path = api.group_path("apps/v1", "deployments/one");
    let all = api.group_path("apps/v1", "deployments");
    let old = api.created(&all, &objects::deployment("one")).await;
    api.merged(&path, &json!({"spec": {"replicas": 2}})).await;
    let response = api
        .put(&path, &old.json)
        .await
        .expect_failure(409, "Conflict");
    assert_eq!(response.details()["name"], "one");
    assert_eq!(response.details()["group"], "apps");
    assert_eq!(response.details()["kind"], "deployments");
    assert!(
        response.message().contains("the object has been modified"),
        "{}",
        response.message()
    );

    let old = crd.created("one", json!({})).await;
    crd.merged("one", &json!({"spec": {"a": 2}})).await;
    let response = api
        .put(&crd.path_of("one"), &old.json)
        .await
        .expect_failure(409, "Conflict");
    assert_eq!(response.details()["group"], crd.group());
    assert_eq!(response.details()["kind"], "widgets");
}

#[tokio::test]
async fn update_of_the_current_version_succeeds() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    let made = api.created(&api.ns_path("configmaps"), &object).await;
    let mut update = made.json.clone();
    update["data"] = json!({"key": "1"});
    let updated = api.replaced(&path, &update).await;
    assert_ne!(updated.resource_version(), made.resource_version());
}

#[tokio::test]
async fn only_custom_objects_require_a_version_for_updates() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let path = api.ns_path("configmaps");
    api.created(&path, &objects::config_map("one", json!({})))
        .await;
    let update = objects::config_map("one", json!({"key": "1"}));
    api.replaced(&api.ns_path("configmaps/one"), &update).await;

    crd.created("one", json!({})).await;
    let response = api
        .put(&crd.path_of("one"), &crd.object("one", json!({"a": 1})))
        .await;
    let response = response.expect_failure(422, "Invalid");
    assert_eq!(
        response.causes(),
        [("FieldValueInvalid", "metadata.resourceVersion")]
    );
}

#[tokio::test]
async fn patch_can_require_a_version() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    let made = api.created(&api.ns_path("configmaps"), &object).await;
    let patch = |value: &str| json!({"metadata": {"resourceVersion": made.resource_version()}, "data": {"key": value}});
    api.merged(&path, &patch("1")).await;
    for kind in [PatchType::Merge, PatchType::Strategic] {
        let response = api
            .patch(&path, kind, &patch("2"))
            .await
            .expect_failure(409, "Conflict");
        assert_eq!(response.details()["name"], "one");
        assert_eq!(response.details()["kind"], "configmaps");
    }
    let json_patch = json!([
        {"op": "replace", "path": "/metadata/resourceVersion", "value": made.resource_version()},
        {"op": "replace", "path": "/data/key", "value": "2"},
    ]);
    api.patch(&path, PatchType::Json, &json_patch)
        .await
        .expect_failure(409, "Conflict");
    assert_eq!(api.get(&path).await.at("/data/key"), "1");
}

#[tokio::test]
async fn patch_of_a_custom_object_can_require_a_version_and_a_uid() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let made = crd.created("one", json!({})).await;
    let patch = json!({
        "metadata": {"resourceVersion": made.resource_version(), "uid": made.uid()},
        "spec": {"a": 1},
    });
    crd.merged("one", &patch).await;
    api.merge(&crd.path_of("one"), &patch)
        .await
        .expect_failure(409, "Conflict");
    let status = json!({
        "metadata": {"resourceVersion": made.resource_version()}, "status": {"a": 1},
    });
    api.merge(&crd.path_of("one/status"), &status)
        .await
        .expect_failure(409, "Conflict");
}

#[tokio::test]
async fn creation_of_an_existing_object_is_rejected() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let path = api.group_path("apps/v1", "deployments");
    api.created(&path, &objects::deployment("one")).await;
    let response = api.create(&path, &objects::deployment("one")).await;
    let response = response.expect_failure(409, "AlreadyExists");
    assert_eq!(response.details()["name"], "one");
    assert_eq!(response.details()["group"], "apps");
    assert_eq!(response.details()["kind"], "deployments");
    assert_eq!(
        response.message(),
        r#"deployments.apps "one" already exists"#
    );

    crd.created("one", json!({})).await;
    let response = api.create(&crd.path(), &crd.object("one", json!({}))).await;
    let response = response.expect_failure(409, "AlreadyExists");
    assert_eq!(response.details()["kind"], "widgets");
}

#[tokio::test]
async fn update_and_patch_of_a_missing_object_are_rejected() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    api.put(&path, &object)
        .await
        .expect_failure(404, "NotFound");
    for kind in [PatchType::Merge, PatchType::Strategic] {
        api.patch(&path, kind, &object)
            .await
            .expect_failure(404, "NotFound");
    }
    api.patch(&path, PatchType::Json, &json!([]))
        .await
        .expect_failure(404, "NotFound");
    let mut object = crd.object("one", json!({}));
    api.merge(&crd.path_of("one"), &object)
        .await
        .expect_failure(404, "NotFound");
    object["metadata"]["resourceVersion"] = json!("1");
    api.put(&crd.path_of("one"), &object)
        .await
        .expect_failure(404, "NotFound");
}

#[tokio::test]
async fn update_of_a_recreated_object_is_a_conflict() {
    let api = Api::start().await;
    let all = api.ns_path("configmaps");
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    let former = api.created(&all, &object).await;
    api.deleted(&path).await;
    api.created(&all, &object).await;

    let mut update = former.json.clone();
    api.put(&path, &update)
        .await
        .expect_failure(409, "Conflict");
    update["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let response = api
        .put(&path, &update)
        .await
        .expect_failure(409, "Conflict");
    assert!(response.message().contains("UID"), "{}", response.message());
}

#[tokio::test]
async fn creation_with_a_version_is_rejected() {
    let api = Api::start().await;
    let mut object = objects::config_map("one", json!({}));
    object["metadata"]["resourceVersion"] = json!("5");
    let response = api
        .create(&api.ns_path("configmaps"), &object)
        .await
        .expect_code(500);
    assert_eq!(
        response.message(),
        "resourceVersion should not be set on objects to be created"
    );
    let dry = with_query(&api.ns_path("configmaps"), &[("dryRun", "All")]);
    api.create(&dry, &object).await.expect_code(201);
    object["data"] = json!({"in valid": ""});
    let invalid = api.create(&api.ns_path("configmaps"), &object).await;
    invalid.expect_failure(422, "Invalid");
    api.get(&api.ns_path("configmaps/one"))
        .await
        .expect_code(404);
}

#[tokio::test]
async fn concurrent_patches_of_different_keys_are_all_kept() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    api.created(&api.ns_path("configmaps"), &object).await;
    // The server retries a conflicting patch a limited number of times; this stays below the limit.
    let keys = ["a", "b", "c", "d"];
    let patches = keys.map(|key| json!({"data": {key: key}}));
    let responses = join_all(patches.iter().map(|patch| api.merge(&path, patch))).await;
    for response in responses {
        response.expect_code(200);
    }
    let data = api.get(&path).await;
    assert_eq!(
        data.json["data"],
        json!({"a": "a", "b": "b", "c": "c", "d": "d"})
    );
}

#[tokio::test]
async fn exactly_one_of_concurrent_updates_succeeds() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    let made = api.created(&api.ns_path("configmaps"), &object).await;
    let updates: Vec<_> = (0..8)
        .map(|number| {
            let mut update = made.json.clone();
            update["data"] = json!({"key": number.to_string()});
            update
        })
        .collect();
    let responses = join_all(updates.iter().map(|update| api.put(&path, update))).await;
    let mut codes: Vec<_> = responses.iter().map(|response| response.code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [200, 409, 409, 409, 409, 409, 409, 409]);
}
