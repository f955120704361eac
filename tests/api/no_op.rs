//! Writes without changes: no new version, no event.

use kopf_tests::{Api, PatchType, objects, with_query};
use serde_json::json;

#[tokio::test]
async fn unchanged_built_in_object_keeps_its_version_and_sends_no_event() {
    let api = Api::start().await;
    let all = api.ns_path("configmaps");
    let path = api.ns_path("configmaps/one");
    let mut object = objects::config_map("one", json!({"a": "1"}));
    object["metadata"]["labels"] = json!({"l": "1"});
    let made = api.created(&all, &object).await;
    let from = with_query(&all, &[("resourceVersion", &made.resource_version())]);
    let mut watch = api.watch(&from).await;

    let same = json!({"data": {"a": "1"}, "metadata": {"labels": {"l": "1", "none": null}}});
    let tested = json!([
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "1"},
    ]);
    for response in [
        api.put(&path, &made.json).await,
        api.put(&path, &object).await,
        api.merge(&path, &same).await,
        api.merge(&path, &json!({})).await,
        api.patch(&path, PatchType::Strategic, &same).await,
        api.patch(&path, PatchType::Json, &tested).await,
        api.patch(&path, PatchType::Json, &json!([])).await,
    ] {
        assert_eq!(
            response.expect_code(200).resource_version(),
            made.resource_version()
        );
    }
    assert_eq!(api.get(&path).await.json, made.json);

    api.created(&all, &objects::config_map("two", json!({})))
        .await;
    assert_eq!(watch.next_event().await.brief(), ("ADDED", "two"));
}

#[tokio::test]
async fn unchanged_custom_object_keeps_its_version_and_sends_no_event() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let path = crd.path_of("one");
    let status = crd.path_of("one/status");
    crd.created("one", json!({"a": 1})).await;
    let made = api.merged(&status, &json!({"status": {"b": 2}})).await;
    let from = with_query(
        &crd.path(),
        &[("resourceVersion", &made.resource_version())],
    );
    let mut watch = api.watch(&from).await;

    let tested = json!([{"op": "test", "path": "/spec/a", "value": 1}]);
    for response in [
        api.put(&path, &made.json).await,
        api.put(&status, &made.json).await,
        api.merge(&path, &json!({"spec": {"a": 1}})).await,
        api.merge(&path, &json!({"status": {"b": 3}})).await,
        api.merge(&status, &json!({"status": {"b": 2}})).await,
        api.merge(&status, &json!({"spec": {"a": 2}})).await,
        api.patch(&path, PatchType::Json, &tested).await,
    ] {
        let response = response.expect_code(200);
        assert_eq!(response.resource_version(), made.resource_version());
        assert_eq!(response.generation(), made.generation());
    }

    crd.created("two", json!({})).await;
    assert_eq!(watch.next_event().await.brief(), ("ADDED", "two"));
}
