//! `metadata.managedFields` after creates, updates and patches.

use http::Method;
use kopf_tests::{Api, PatchType, objects, with_query};
use serde_json::{Value, json};

use crate::apply::{apply, owned};

#[tokio::test]
async fn creators_own_given_and_defaulted_fields() {
    let api = Api::start().await;
    let path = with_query(
        &api.group_path("apps/v1", "deployments"),
        &[("fieldManager", "me")],
    );
    let created = api.created(&path, &objects::deployment("one")).await;
    let fields = owned(&created, "me", "Update");
    assert_eq!(fields["f:spec"]["f:replicas"], json!({}));
    assert_eq!(fields["f:spec"]["f:revisionHistoryLimit"], json!({}));
    assert_eq!(fields["f:spec"]["f:selector"], json!({}));
    assert_eq!(
        fields["f:spec"]["f:template"]["f:metadata"]["f:labels"],
        json!({".": {}, "f:app": {}})
    );
    assert!(fields["f:status"].is_null());
    assert!(fields["f:metadata"]["f:name"].is_null());
}

#[tokio::test]
async fn changed_fields_change_their_manager() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let created = with_query(&maps, &[("fieldManager", "first")]);
    let object = objects::config_map("one", json!({"a": "1", "b": "1"}));
    api.created(&created, &object).await;
    let path = with_query(&format!("{maps}/one"), &[("fieldManager", "second")]);
    let patched = api
        .merge(&path, &json!({"data": {"a": "2", "c": "1"}}))
        .await
        .ok();
    assert_eq!(
        owned(&patched, "first", "Update"),
        json!({"f:data": {".": {}, "f:b": {}}})
    );
    assert_eq!(
        owned(&patched, "second", "Update"),
        json!({"f:data": {"f:a": {}, "f:c": {}}})
    );
    let removed = api.merge(&path, &json!({"data": {"b": null}})).await.ok();
    assert_eq!(owned(&removed, "first", "Update"), json!({"f:data": {}}));
}

#[tokio::test]
async fn default_manager_is_the_user_agent() {
    let api = Api::start().await;
    for (agent, name) in [
        ("kopf/1.0 (linux)", "kopf"),
        ("plain", "plain"),
        ("/1", "unknown"),
    ] {
        let object = objects::config_map(&format!("of-{name}"), json!({"a": "1"}));
        let created = api
            .request(Method::POST, &api.ns_path("configmaps"))
            .header("user-agent", agent)
            .json(&object)
            .send()
            .await
            .expect_code(201);
        assert_eq!(created.at("/metadata/managedFields/0/manager"), name);
    }
}

#[tokio::test]
async fn empty_lists_reset_the_managers() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let object = objects::config_map("one", json!({"a": "1"}));
    api.created(&maps, &object).await;
    let path = format!("{maps}/one");
    let reset = json!({"metadata": {"managedFields": []}});
    let cleared = api.merge(&path, &reset).await.ok();
    assert_eq!(cleared.at("/metadata/managedFields"), &Value::Null);
    let updated = api.merge(&path, &json!({"data": {"b": "1"}})).await.ok();
    assert_eq!(updated.at("/metadata/managedFields"), &Value::Null);
    let config = objects::config_map("one", json!({"c": "1"}));
    let applied = apply(&api, &path, "me", &config).await.ok();
    assert_eq!(
        owned(&applied, "before-first-apply", "Update"),
        json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}})
    );
}

#[tokio::test]
async fn clients_can_write_the_managers() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let object = objects::config_map("one", json!({"a": "1"}));
    api.created(&maps, &object).await;
    let path = format!("{maps}/one");
    let rename =
        json!([{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "other"}]);
    let patched = api.patch(&path, PatchType::Json, &rename).await.ok();
    assert_eq!(
        owned(&patched, "other", "Update"),
        json!({"f:data": {".": {}, "f:a": {}}})
    );
    // Malformed entries are ignored.
    let broken =
        json!([{"op": "replace", "path": "/metadata/managedFields/0/operation", "value": "x"}]);
    let response = api.patch(&path, PatchType::Json, &broken).await.ok();
    assert_eq!(
        owned(&response, "other", "Update"),
        json!({"f:data": {".": {}, "f:a": {}}})
    );
}

#[tokio::test]
async fn writes_without_changes_keep_the_managers() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let object = objects::config_map("one", json!({"a": "1"}));
    let created = api.created(&maps, &object).await;
    let path = with_query(&format!("{maps}/one"), &[("fieldManager", "second")]);
    let same = api.merge(&path, &json!({"data": {"a": "1"}})).await.ok();
    assert_eq!(same.json, created.json);
    let config = objects::config_map("one", json!({"a": "1"}));
    let first = apply(&api, &format!("{maps}/one"), "me", &config)
        .await
        .ok();
    let second = apply(&api, &format!("{maps}/one"), "me", &config)
        .await
        .ok();
    assert_eq!(first.json, second.json);
}

#[tokio::test]
async fn old_updates_are_merged_into_one_entry() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let object = objects::config_map("one", json!({"a": "1"}));
    api.created(&with_query(&maps, &[("fieldManager", "m00")]), &object)
        .await;
    for index in 1..14 {
        let manager = format!("m{index:02}");
        let path = with_query(&format!("{maps}/one"), &[("fieldManager", &manager)]);
        let patch = json!({"data": {manager: "1"}});
        api.merge(&path, &patch).await.ok();
    }
    let object = api.get(&format!("{maps}/one")).await.ok();
    let entries = object.at("/metadata/managedFields").as_array().unwrap();
    assert_eq!(entries.len(), 10);
    assert_ne!(owned(&object, "ancient-changes", "Update"), Value::Null);
    assert_ne!(owned(&object, "m13", "Update"), Value::Null);
}

#[tokio::test]
async fn scales_have_managers_in_the_scaled_object() {
    let api = Api::start().await;
    let path = api.group_path("apps/v1", "deployments/one");
    apply(&api, &path, "me", &objects::deployment("one"))
        .await
        .expect_code(201);
    let scale = with_query(&format!("{path}/scale"), &[("fieldManager", "scaler")]);
    api.merge(&scale, &json!({"spec": {"replicas": 5}}))
        .await
        .ok();
    let object = api.get(&path).await.ok();
    let entries = object.at("/metadata/managedFields").as_array().unwrap();
    let entry = entries.iter().find(|it| it["manager"] == "scaler").unwrap();
    assert_eq!(entry["subresource"], "scale");
    assert_eq!(entry["apiVersion"], "apps/v1");
    assert_eq!(entry["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    let refused = apply(&api, &path, "me", &objects::deployment("one")).await;
    refused.expect_failure(409, "Conflict");
}

#[tokio::test]
async fn kubectl_migrates_from_client_side_apply() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let applied = objects::config_map("one", json!({"a": "1", "b": "1"}));
    let mut object = applied.clone();
    object["metadata"]["annotations"] = json!({annotation: applied.to_string()});
    let by = with_query(&maps, &[("fieldManager", "kubectl-client-side-apply")]);
    api.created(&by, &object).await;
    let path = format!("{maps}/one");
    let config = objects::config_map("one", json!({"a": "2", "b": "1"}));
    apply(&api, &path, "other", &config)
        .await
        .expect_failure(409, "Conflict");
    let taken = apply(&api, &path, "kubectl", &config).await.ok();
    assert_eq!(taken.at("/data/a"), "2");
    let text = taken.json["metadata"]["annotations"][annotation]
        .as_str()
        .unwrap();
    let last: Value = serde_json::from_str(text).unwrap();
    assert_eq!(last["data"], json!({"a": "2", "b": "1"}));
}
