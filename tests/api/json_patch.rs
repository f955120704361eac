//! JSON patches (RFC 6902).

use kopf_tests::{Api, ApiResponse, PatchType, objects};
use serde_json::{Value, json};

async fn start() -> (Api, String) {
    let api = Api::start().await;
    let object = objects::config_map("one", json!({"a": "1", "b": "2"}));
    api.created(&api.ns_path("configmaps"), &object).await;
    let path = api.ns_path("configmaps/one");
    (api, path)
}

async fn patch(api: &Api, path: &str, operations: Value) -> ApiResponse {
    api.patch(path, PatchType::Json, &operations).await
}

#[tokio::test]
async fn json_patch_operations_are_applied_in_order() {
    let (api, path) = start().await;
    let patched = patch(
        &api,
        &path,
        json!([
            {"op": "test", "path": "/data/a", "value": "1"},
            {"op": "replace", "path": "/data/a", "value": "3"},
            {"op": "copy", "from": "/data/a", "path": "/data/c"},
            {"op": "move", "from": "/data/b", "path": "/data/d"},
            {"op": "remove", "path": "/data/a"},
            {"op": "add", "path": "/data/e", "value": "5"},
            {"op": "test", "path": "/data/c", "value": "3"},
        ]),
    )
    .await
    .expect_code(200);
    assert_eq!(patched.json["data"], json!({"c": "3", "d": "2", "e": "5"}));
}

#[tokio::test]
async fn failed_test_of_a_json_patch_changes_nothing() {
    let (api, path) = start().await;
    let before = api.get(&path).await;
    for operations in [
        json!([
            {"op": "replace", "path": "/data/a", "value": "3"},
            {"op": "test", "path": "/data/b", "value": "other"},
        ]),
        json!([{"op": "test", "path": "/data/none", "value": "1"}]),
        json!([{"op": "test", "path": "/data/a", "value": 1}]),
    ] {
        let response = patch(&api, &path, operations)
            .await
            .expect_failure(422, "Invalid");
        // Clients distinguish failed tests from denials and violations by these two.
        let message = "the server rejected our request due to an error in our request";
        assert_eq!(response.message(), message);
        assert_eq!(*response.details(), json!({}));
    }
    assert_eq!(api.get(&path).await.json, before.json);
}

#[tokio::test]
async fn json_patch_paths_must_exist() {
    let (api, path) = start().await;
    for operations in [
        json!([{"op": "remove", "path": "/data/none"}]),
        json!([{"op": "replace", "path": "/binaryData/none", "value": "1"}]),
        json!([{"op": "add", "path": "/binaryData/none", "value": "1"}]),
        json!([{"op": "move", "from": "/data/none", "path": "/data/x"}]),
        json!([{"op": "copy", "from": "/binaryData/none", "path": "/data/x"}]),
        json!([{"op": "unknown", "path": "/data/a"}]),
        json!([{"op": "add", "value": "1"}]),
    ] {
        patch(&api, &path, operations)
            .await
            .expect_failure(422, "Invalid");
    }
}

#[tokio::test]
async fn json_patch_replace_adds_a_missing_key() {
    // The RFC requires an error here, which Kubernetes does not return.
    let (api, path) = start().await;
    let operations = json!([{"op": "replace", "path": "/data/none", "value": "1"}]);
    let patched = patch(&api, &path, operations).await.expect_code(200);
    assert_eq!(patched.at("/data/none"), "1");
}

#[tokio::test]
async fn json_patch_paths_are_escaped() {
    let (api, path) = start().await;
    let patched = patch(
        &api,
        &path,
        json!([
            {"op": "add", "path": "/metadata/annotations", "value": {}},
            {"op": "add", "path": "/metadata/annotations/example.com~1key", "value": "x"},
        ]),
    )
    .await
    .expect_code(200);
    assert_eq!(
        patched.at("/metadata/annotations"),
        &json!({"example.com/key": "x"})
    );
}

#[tokio::test]
async fn json_patches_reach_into_lists() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let path = crd.path_of("one");
    crd.created("one", json!({"l": [1, 2, 3]})).await;
    let patched = patch(
        &api,
        &path,
        json!([
            {"op": "add", "path": "/spec/l/-", "value": 4},
            {"op": "add", "path": "/spec/l/0", "value": 0},
            {"op": "remove", "path": "/spec/l/2"},
            {"op": "replace", "path": "/spec/l/1", "value": {"one": 1}},
        ]),
    )
    .await
    .expect_code(200);
    assert_eq!(patched.at("/spec/l"), &json!([0, {"one": 1}, 3, 4]));
    for index in ["9", "x", "-5"] {
        let operations = json!([{"op": "replace", "path": format!("/spec/l/{index}"), "value": 0}]);
        patch(&api, &path, operations)
            .await
            .expect_failure(422, "Invalid");
    }
}

#[tokio::test]
async fn json_patches_work_on_custom_objects_and_their_status() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    crd.created("one", json!({"a": 1})).await;
    let operations = json!([{"op": "test", "path": "/spec/a", "value": 1},
        {"op": "replace", "path": "/spec/a", "value": 2}]);
    let patched = patch(&api, &crd.path_of("one"), operations)
        .await
        .expect_code(200);
    assert_eq!(patched.json["spec"], json!({"a": 2}));
    assert_eq!(patched.generation(), 2);
    let operations = json!([{"op": "add", "path": "/status", "value": {"b": 1}}]);
    let patched = patch(&api, &crd.path_of("one/status"), operations)
        .await
        .expect_code(200);
    assert_eq!(patched.json["status"], json!({"b": 1}));
}

#[tokio::test]
async fn result_of_a_json_patch_is_validated() {
    let (api, path) = start().await;
    let labels = json!([
        {"op": "add", "path": "/metadata/labels", "value": {"bad key": "x"}},
    ]);
    let response = patch(&api, &path, labels)
        .await
        .expect_failure(422, "Invalid");
    assert_eq!(response.causes()[0].1, "metadata.labels");
    let types = json!([{"op": "replace", "path": "/data/a", "value": 5}]);
    patch(&api, &path, types)
        .await
        .expect_failure(422, "Invalid");
    let name = json!([{"op": "replace", "path": "/metadata/name", "value": "two"}]);
    patch(&api, &path, name)
        .await
        .expect_failure(400, "BadRequest");
}
