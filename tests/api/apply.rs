//! Server-side apply: merging, ownership, conflicts.

use http::Method;
use kopf_tests::{Api, ApiResponse, PatchType, objects, with_query};
use serde_json::{Value, json};

/// Applies a configuration as a manager.
pub(crate) async fn apply(api: &Api, path: &str, manager: &str, config: &Value) -> ApiResponse {
    let path = with_query(path, &[("fieldManager", manager)]);
    api.patch(&path, PatchType::Apply, config).await
}

/// Applies a configuration as a manager that takes fields from others.
pub(crate) async fn force(api: &Api, path: &str, manager: &str, config: &Value) -> ApiResponse {
    let path = with_query(path, &[("fieldManager", manager), ("force", "true")]);
    api.patch(&path, PatchType::Apply, config).await
}

/// Returns the `fieldsV1` of a manager, or null.
pub(crate) fn owned(response: &ApiResponse, manager: &str, operation: &str) -> Value {
    let entries = response.at("/metadata/managedFields").as_array().cloned();
    let entries = entries.unwrap_or_default();
    let entry = entries
        .iter()
        .find(|entry| entry["manager"] == manager && entry["operation"] == operation);
    entry.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

#[tokio::test]
async fn apply_creates_absent_objects() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let config = objects::config_map("one", json!({"a": "1"}));
    let created = apply(&api, &path, "me", &config).await.expect_code(201);
    assert_eq!(created.at("/data/a"), "1");
    let entry = created.at("/metadata/managedFields/0");
    assert_eq!(entry["manager"], "me");
    assert_eq!(entry["operation"], "Apply");
    assert_eq!(entry["apiVersion"], "v1");
    assert_eq!(entry["fieldsType"], "FieldsV1");
    assert_eq!(entry["fieldsV1"], json!({"f:data": {"f:a": {}}}));
    assert!(entry["time"].is_string());
    let again = apply(&api, &path, "me", &config).await.expect_code(200);
    assert_eq!(again.resource_version(), created.resource_version());
}

#[tokio::test]
async fn fields_that_are_no_longer_applied_are_removed() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let config = |data| objects::config_map("one", data);
    apply(&api, &path, "me", &config(json!({"a": "1", "b": "2"})))
        .await
        .expect_code(201);
    api.merge(&path, &json!({"data": {"c": "3"}})).await.ok();
    let applied = apply(&api, &path, "me", &config(json!({"a": "1"})))
        .await
        .ok();
    assert_eq!(applied.json["data"], json!({"a": "1", "c": "3"}));
}

#[tokio::test]
async fn fields_of_other_managers_are_kept() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let config = |data| objects::config_map("one", data);
    apply(&api, &path, "me", &config(json!({"a": "1", "b": "2"})))
        .await
        .expect_code(201);
    apply(&api, &path, "you", &config(json!({"b": "2"})))
        .await
        .ok();
    let applied = apply(&api, &path, "me", &config(json!({"a": "1"})))
        .await
        .ok();
    assert_eq!(applied.json["data"], json!({"a": "1", "b": "2"}));
    assert_eq!(
        owned(&applied, "you", "Apply"),
        json!({"f:data": {"f:b": {}}})
    );
}

#[tokio::test]
async fn changing_the_field_of_another_manager_is_a_conflict() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let config = |data| objects::config_map("one", data);
    apply(&api, &path, "me", &config(json!({"a": "1"})))
        .await
        .expect_code(201);
    let refused = apply(&api, &path, "you", &config(json!({"a": "2"}))).await;
    let refused = refused.expect_failure(409, "Conflict");
    assert_eq!(
        refused.message(),
        "Apply failed with 1 conflict: conflict with \"me\": .data.a"
    );
    assert_eq!(refused.causes(), [("FieldManagerConflict", ".data.a")]);
    assert_eq!(
        refused.details()["causes"][0]["message"],
        "conflict with \"me\""
    );
    let forced = force(&api, &path, "you", &config(json!({"a": "2"})))
        .await
        .ok();
    assert_eq!(forced.at("/data/a"), "2");
    assert_eq!(owned(&forced, "me", "Apply"), Value::Null);
}

#[tokio::test]
async fn conflicts_with_updates_name_the_version() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let config = |data| objects::config_map("one", data);
    let created = with_query(&maps, &[("fieldManager", "creator")]);
    api.created(&created, &config(json!({"a": "1", "b": "1"})))
        .await;
    let path = format!("{maps}/one");
    let refused = apply(&api, &path, "me", &config(json!({"a": "2", "b": "2"}))).await;
    let refused = refused.expect_failure(409, "Conflict");
    assert_eq!(
        refused.message(),
        "Apply failed with 2 conflicts: conflicts with \"creator\" using v1:\n- .data.a\n- .data.b"
    );
}

#[tokio::test]
async fn shared_fields_conflict_for_each_owner() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let config = |data| objects::config_map("one", data);
    apply(&api, &path, "me", &config(json!({"a": "1"})))
        .await
        .expect_code(201);
    let shared = apply(&api, &path, "you", &config(json!({"a": "1"})))
        .await
        .ok();
    assert_eq!(
        owned(&shared, "me", "Apply"),
        owned(&shared, "you", "Apply")
    );
    apply(&api, &path, "me", &config(json!({"a": "2"})))
        .await
        .expect_failure(409, "Conflict");
    apply(&api, &path, "you", &config(json!({}))).await.ok();
    apply(&api, &path, "me", &config(json!({"a": "2"})))
        .await
        .ok();
}

#[tokio::test]
async fn manager_is_required_and_force_is_only_for_applies() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let config = objects::config_map("one", json!({}));
    let refused = api.patch(&path, PatchType::Apply, &config).await;
    let refused = refused.expect_failure(422, "Invalid");
    assert_eq!(refused.causes(), [("FieldValueRequired", "fieldManager")]);
    let forced = with_query(&path, &[("force", "true")]);
    let refused = api.patch(&forced, PatchType::Merge, &json!({})).await;
    let refused = refused.expect_failure(422, "Invalid");
    assert_eq!(refused.causes(), [("FieldValueForbidden", "force")]);
}

#[tokio::test]
async fn configurations_name_the_object_and_its_kind() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    for (config, message) in [
        (
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}}),
            "invalid object type: /v1, Kind=Secret",
        ),
        (
            json!({"kind": "ConfigMap", "metadata": {"name": "one"}}),
            "invalid object type: /, Kind=ConfigMap",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            "the name of the object (one based on URL) was undeterminable: name must be provided",
        ),
        (
            objects::config_map("two", json!({})),
            "the name of the object (two) does not match the name on the URL (one)",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "managedFields": [{}]}}),
            "metadata.managedFields must be nil",
        ),
    ] {
        let refused = apply(&api, &path, "me", &config).await;
        let refused = refused.expect_failure(400, "BadRequest");
        assert_eq!(refused.message(), message);
    }
}

#[tokio::test]
async fn configurations_can_be_yaml() {
    let api = Api::start().await;
    let path = with_query(&api.ns_path("configmaps/one"), &[("fieldManager", "me")]);
    let yaml = |body: &'static str| {
        api.request(Method::PATCH, &path)
            .header("content-type", "application/apply-patch+yaml")
            .body(body)
            .send()
    };
    let applied = yaml("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata:\n  a: x\n");
    assert_eq!(applied.await.expect_code(201).at("/data/a"), "x");
    yaml("a: [").await.expect_failure(400, "BadRequest");
    yaml("[]").await.expect_failure(400, "BadRequest");
    yaml("").await.expect_failure(400, "BadRequest");
}

#[tokio::test]
async fn mistyped_configurations_are_rejected() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "spec": {}});
    let refused = apply(&api, &path, "me", &config).await.expect_code(500);
    assert_eq!(
        refused.message(),
        "failed to create typed patch object (/one; /v1, Kind=ConfigMap): .spec: field not declared in schema"
    );
    let config = objects::config_map("one", json!({"a": 1}));
    let refused = apply(&api, &path, "me", &config).await.expect_code(500);
    assert!(
        refused.message().contains(".data.a: expected string"),
        "{}",
        refused.message()
    );
    api.get(&path).await.expect_failure(404, "NotFound");
}

#[tokio::test]
async fn dry_runs_apply_nothing() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let dry = with_query(&path, &[("fieldManager", "me"), ("dryRun", "All")]);
    let config = objects::config_map("one", json!({"a": "1"}));
    let shown = api
        .patch(&dry, PatchType::Apply, &config)
        .await
        .expect_code(201);
    assert_eq!(owned(&shown, "me", "Apply"), json!({"f:data": {"f:a": {}}}));
    api.get(&path).await.expect_failure(404, "NotFound");
}

#[tokio::test]
async fn resource_versions_of_configurations_are_preconditions() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let mut config = objects::config_map("one", json!({"a": "1"}));
    let created = apply(&api, &path, "me", &config).await.expect_code(201);
    api.merge(&path, &json!({"data": {"b": "1"}})).await.ok();
    config["metadata"]["resourceVersion"] = json!(created.resource_version());
    apply(&api, &path, "me", &config)
        .await
        .expect_failure(409, "Conflict");
}

#[tokio::test]
async fn lists_of_containers_and_ports_are_merged_by_their_keys() {
    let api = Api::start().await;
    let path = api.group_path("apps/v1", "deployments/one");
    let mut config = objects::deployment("one");
    config["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    apply(&api, &path, "me", &config).await.expect_code(201);
    let mut other = objects::deployment("one");
    other["spec"].as_object_mut().unwrap().remove("replicas");
    other["spec"]["template"]["spec"]["containers"] = json!([
        {"name": "side", "image": "example.com/side:1"},
        {"name": "main", "image": "example.com/main:1", "ports": [{"containerPort": 80, "protocol": "UDP"}]},
    ]);
    let merged = apply(&api, &path, "you", &other).await.ok();
    let containers = merged
        .at("/spec/template/spec/containers")
        .as_array()
        .unwrap();
    let names: Vec<&Value> = containers.iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["side", "main"]);
    assert_eq!(containers[1]["ports"].as_array().map(Vec::len), Some(2));
    let mine = owned(&merged, "me", "Apply");
    assert_eq!(
        mine["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"main\"}"]["f:ports"],
        json!({"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}})
    );
}
