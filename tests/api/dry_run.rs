//! `dryRun=All`: requests are validated and get a response, but nothing is stored.

use kopf_tests::{Api, objects, with_query};
use serde_json::json;

fn dry(path: &str) -> String {
    with_query(path, &[("dryRun", "All")])
}

#[tokio::test]
async fn dry_run_creation_returns_the_object_and_stores_nothing() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let answer = api
        .created(&dry(&path), &objects::config_map("one", json!({})))
        .await;
    assert_eq!(answer.name(), "one");
    assert!(!answer.uid().is_empty());
    assert!(answer.at("/metadata/resourceVersion").is_null());
    api.get(&api.ns_path("configmaps/one"))
        .await
        .expect_code(404);
}

#[tokio::test]
async fn dry_run_creation_is_validated() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let object = objects::config_map("one", json!({}));
    api.created(&path, &object).await;
    api.create(&dry(&path), &object)
        .await
        .expect_failure(409, "AlreadyExists");
    let bad = objects::config_map("Not Valid", json!({}));
    api.create(&dry(&path), &bad)
        .await
        .expect_failure(422, "Invalid");
}

#[tokio::test]
async fn dry_run_updates_and_patches_change_nothing() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({"key": "old"}));
    let made = api.created(&api.ns_path("configmaps"), &object).await;

    let update = objects::config_map("one", json!({"key": "new"}));
    let updated = api.replaced(&dry(&path), &update).await;
    assert_eq!(updated.at("/data/key"), "new");
    let patched = api
        .merged(&dry(&path), &json!({"data": {"key": "newer"}}))
        .await;
    assert_eq!(patched.at("/data/key"), "newer");

    assert_eq!(api.get(&path).await.json, made.json);
}

#[tokio::test]
async fn dry_run_writes_of_custom_objects_and_status_change_nothing() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let made = crd.created("one", json!({"a": 1})).await;

    let path = crd.path_of("one");
    let patched = api.merged(&dry(&path), &json!({"spec": {"a": 2}})).await;
    assert_eq!(patched.at("/spec/a"), 2);
    assert_eq!(patched.generation(), 2);
    let status = json!({"status": {"phase": "Done"}});
    let patched = api.merged(&dry(&crd.path_of("one/status")), &status).await;
    assert_eq!(patched.at("/status/phase"), "Done");

    assert_eq!(api.get(&path).await.json, made.json);
}

#[tokio::test]
async fn dry_run_deletions_delete_nothing() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    let made = api.created(&api.ns_path("configmaps"), &object).await;

    api.deleted(&dry(&path)).await;
    api.delete_with(&path, &json!({"dryRun": ["All"]}))
        .await
        .expect_code(200);
    api.deleted(&dry(&api.ns_path("configmaps"))).await;
    assert_eq!(api.get(&path).await.json, made.json);
    api.delete(&dry(&api.ns_path("configmaps/none")))
        .await
        .expect_failure(404, "NotFound");
}

#[tokio::test]
async fn dry_run_writes_send_no_events() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let made = api
        .created(&path, &objects::config_map("one", json!({})))
        .await;
    let from = with_query(&path, &[("resourceVersion", &made.resource_version())]);
    let mut watch = api.watch(&from).await;

    let one = api.ns_path("configmaps/one");
    api.created(&dry(&path), &objects::config_map("two", json!({})))
        .await;
    api.merged(&dry(&one), &json!({"data": {"key": "new"}}))
        .await;
    api.deleted(&dry(&one)).await;
    api.created(&path, &objects::config_map("three", json!({})))
        .await;

    assert_eq!(watch.next_event().await.brief(), ("ADDED", "three"));
}

#[tokio::test]
async fn dry_run_accepts_only_all() {
    let api = Api::start().await;
    let path = with_query(&api.ns_path("configmaps"), &[("dryRun", "Some")]);
    let answer = api
        .create(&path, &objects::config_map("one", json!({})))
        .await;
    answer.expect_failure(422, "Invalid");
    api.get(&api.ns_path("configmaps/one"))
        .await
        .expect_code(404);
}
