//! Optimistic locking, and writes that meet what they did not expect.

use futures::future::join_all;
use kopf_tests::{Api, PatchType, objects};
use serde_json::json;

#[tokio::test]
async fn an_update_of_an_old_version_is_a_conflict() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let path = api.group_path("apps/v1", "deployments/one");
    let all = api.group_path("apps/v1", "deployments");
    let old = api
        .create(&all, &objects::deployment("one"))
        .await
        .expect_code(201);
    api.merge(&path, &json!({"spec": {"replicas": 2}}))
        .await
        .expect_code(200);
    let answer = api
        .put(&path, &old.json)
        .await
        .expect_failure(409, "Conflict");
    assert_eq!(answer.details()["name"], "one");
    assert_eq!(answer.details()["group"], "apps");
    assert_eq!(answer.details()["kind"], "deployments");
    assert!(
        answer.message().contains("the object has been modified"),
        "{}",
        answer.message()
    );

    let old = api
        .create(&crd.path(), &crd.object("one", json!({})))
        .await
        .expect_code(201);
    api.merge(&crd.path_of("one"), &json!({"spec": {"a": 2}}))
        .await
        .expect_code(200);
    let answer = api
        .put(&crd.path_of("one"), &old.json)
        .await
        .expect_failure(409, "Conflict");
    assert_eq!(answer.details()["group"], crd.group());
    assert_eq!(answer.details()["kind"], "widgets");
    api.finish().await;
}

#[tokio::test]
async fn an_update_of_the_current_version_succeeds() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    let made = api
        .create(&api.ns_path("configmaps"), &object)
        .await
        .expect_code(201);
    let mut update = made.json.clone();
    update["data"] = json!({"key": "1"});
    let updated = api.put(&path, &update).await.expect_code(200);
    assert_ne!(updated.resource_version(), made.resource_version());
    api.finish().await;
}

#[tokio::test]
async fn built_in_objects_are_updated_without_a_version_and_custom_ones_are_not() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let path = api.ns_path("configmaps");
    api.create(&path, &objects::config_map("one", json!({})))
        .await
        .expect_code(201);
    let update = objects::config_map("one", json!({"key": "1"}));
    api.put(&api.ns_path("configmaps/one"), &update)
        .await
        .expect_code(200);

    api.create(&crd.path(), &crd.object("one", json!({})))
        .await
        .expect_code(201);
    let answer = api
        .put(&crd.path_of("one"), &crd.object("one", json!({"a": 1})))
        .await;
    let answer = answer.expect_failure(422, "Invalid");
    assert_eq!(
        answer.causes(),
        [("FieldValueInvalid", "metadata.resourceVersion")]
    );
    api.finish().await;
}

#[tokio::test]
async fn a_patch_may_insist_on_a_version() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    let made = api
        .create(&api.ns_path("configmaps"), &object)
        .await
        .expect_code(201);
    let patch = |value: &str| json!({"metadata": {"resourceVersion": made.resource_version()}, "data": {"key": value}});
    api.merge(&path, &patch("1")).await.expect_code(200);
    for kind in [PatchType::Merge, PatchType::Strategic] {
        let answer = api
            .patch(&path, kind, &patch("2"))
            .await
            .expect_failure(409, "Conflict");
        assert_eq!(answer.details()["name"], "one");
        assert_eq!(answer.details()["kind"], "configmaps");
    }
    let json_patch = json!([
        {"op": "replace", "path": "/metadata/resourceVersion", "value": made.resource_version()},
        {"op": "replace", "path": "/data/key", "value": "2"},
    ]);
    api.patch(&path, PatchType::Json, &json_patch)
        .await
        .expect_failure(409, "Conflict");
    assert_eq!(api.get(&path).await.at("/data/key"), "1");
    api.finish().await;
}

#[tokio::test]
async fn a_patch_of_a_custom_object_may_insist_on_a_version_and_a_uid() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let made = api
        .create(&crd.path(), &crd.object("one", json!({})))
        .await
        .expect_code(201);
    let patch = json!({
        "metadata": {"resourceVersion": made.resource_version(), "uid": made.uid()},
        "spec": {"a": 1},
    });
    api.merge(&crd.path_of("one"), &patch)
        .await
        .expect_code(200);
    api.merge(&crd.path_of("one"), &patch)
        .await
        .expect_failure(409, "Conflict");
    let status = json!({
        "metadata": {"resourceVersion": made.resource_version()}, "status": {"a": 1},
    });
    api.merge(&crd.path_of("one/status"), &status)
        .await
        .expect_failure(409, "Conflict");
    api.finish().await;
}

#[tokio::test]
async fn an_existing_object_is_not_created_again() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let path = api.group_path("apps/v1", "deployments");
    api.create(&path, &objects::deployment("one"))
        .await
        .expect_code(201);
    let answer = api.create(&path, &objects::deployment("one")).await;
    let answer = answer.expect_failure(409, "AlreadyExists");
    assert_eq!(answer.details()["name"], "one");
    assert_eq!(answer.details()["group"], "apps");
    assert_eq!(answer.details()["kind"], "deployments");
    assert_eq!(answer.message(), r#"deployments.apps "one" already exists"#);

    api.create(&crd.path(), &crd.object("one", json!({})))
        .await
        .expect_code(201);
    let answer = api.create(&crd.path(), &crd.object("one", json!({}))).await;
    let answer = answer.expect_failure(409, "AlreadyExists");
    assert_eq!(answer.details()["kind"], "widgets");
    api.finish().await;
}

#[tokio::test]
async fn a_missing_object_is_not_created_by_an_update_or_a_patch() {
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
    api.finish().await;
}

#[tokio::test]
async fn an_update_meant_for_a_former_object_does_not_hit_its_successor() {
    let api = Api::start().await;
    let all = api.ns_path("configmaps");
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    let former = api.create(&all, &object).await.expect_code(201);
    api.delete(&path).await.expect_code(200);
    api.create(&all, &object).await.expect_code(201);

    let mut update = former.json.clone();
    api.put(&path, &update)
        .await
        .expect_failure(409, "Conflict");
    update["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let answer = api
        .put(&path, &update)
        .await
        .expect_failure(409, "Conflict");
    assert!(answer.message().contains("UID"), "{}", answer.message());
    api.finish().await;
}

#[tokio::test]
async fn a_version_is_not_given_at_creation() {
    let api = Api::start().await;
    let mut object = objects::config_map("one", json!({}));
    object["metadata"]["resourceVersion"] = json!("5");
    let answer = api
        .create(&api.ns_path("configmaps"), &object)
        .await
        .expect_code(500);
    assert_eq!(
        answer.message(),
        "resourceVersion should not be set on objects to be created"
    );
    api.get(&api.ns_path("configmaps/one"))
        .await
        .expect_code(404);
    api.finish().await;
}

#[tokio::test]
async fn concurrent_patches_of_different_keys_are_all_kept() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    api.create(&api.ns_path("configmaps"), &object)
        .await
        .expect_code(201);
    // The server retries a patch which lost a race, but only so often: stay below that.
    let keys = ["a", "b", "c", "d"];
    let patches = keys.map(|key| json!({"data": {key: key}}));
    let answers = join_all(patches.iter().map(|patch| api.merge(&path, patch))).await;
    for answer in answers {
        answer.expect_code(200);
    }
    let data = api.get(&path).await;
    assert_eq!(
        data.json["data"],
        json!({"a": "a", "b": "b", "c": "c", "d": "d"})
    );
    api.finish().await;
}

#[tokio::test]
async fn of_concurrent_updates_of_one_version_exactly_one_succeeds() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    let made = api
        .create(&api.ns_path("configmaps"), &object)
        .await
        .expect_code(201);
    let updates: Vec<_> = (0..8)
        .map(|number| {
            let mut update = made.json.clone();
            update["data"] = json!({"key": number.to_string()});
            update
        })
        .collect();
    let answers = join_all(updates.iter().map(|update| api.put(&path, update))).await;
    let mut codes: Vec<_> = answers.iter().map(|answer| answer.code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [200, 409, 409, 409, 409, 409, 409, 409]);
    api.finish().await;
}
