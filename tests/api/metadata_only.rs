//! PartialObjectMetadata: objects without their bodies, for caches and garbage collectors.

use http::Method;
use kopf_tests::{Api, objects, with_query};
use serde_json::json;

const ONE: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

#[tokio::test]
async fn get_returns_metadata_only() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let mut map = objects::config_map("one", json!({"a": "1"}));
    map["metadata"]["labels"] = json!({"a": "b"});
    let maps = api.ns_path("configmaps");
    let made_map = api.created(&maps, &map).await;
    let widget = crd.object("one", json!({"a": "1"}));
    let made_widget = api.created(&crd.path(), &widget).await;
    for (path, made) in [
        (format!("{maps}/one"), made_map),
        (crd.path_of("one"), made_widget),
    ] {
        let response = api
            .request(Method::GET, &path)
            .header("accept", ONE)
            .send()
            .await;
        let response = response.expect_code(200);
        assert_eq!(response.content_type(), "application/json");
        assert_eq!(response.json["kind"], "PartialObjectMetadata");
        assert_eq!(response.json["apiVersion"], "meta.k8s.io/v1");
        assert_eq!(response.json["metadata"], made.json["metadata"]);
        let keys: Vec<_> = response.json.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["apiVersion", "kind", "metadata"]);
    }
}

#[tokio::test]
async fn list_returns_metadata_only() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let maps = api.ns_path("configmaps");
    api.created(&maps, &objects::config_map("one", json!({"a": "1"})))
        .await;
    crd.created("one", json!({"a": 1})).await;
    for path in [maps, crd.path()] {
        let response = api
            .request(Method::GET, &path)
            .header("accept", LIST)
            .send()
            .await;
        let response = response.expect_code(200);
        assert_eq!(response.json["kind"], "PartialObjectMetadataList");
        assert_eq!(response.json["apiVersion"], "meta.k8s.io/v1");
        assert!(!response.resource_version().is_empty());
        assert_eq!(response.item_names(), ["one"]);
        assert_eq!(response.at("/items/0/kind"), "PartialObjectMetadata");
        assert_eq!(response.at("/items/0/apiVersion"), "meta.k8s.io/v1");
        assert!(response.at("/items/0/data").is_null());
        assert!(response.at("/items/0/spec").is_null());
    }
}

#[tokio::test]
async fn watch_returns_metadata_only() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    crd.created("one", json!({"a": 1})).await;
    let path = with_query(&crd.path(), &[("watch", "1")]);
    let mut watch = api
        .request(Method::GET, &path)
        .header("accept", ONE)
        .watch()
        .await;
    let event = watch.next_event().await;
    assert_eq!(event.brief(), ("ADDED", "one"));
    assert_eq!(event.object["kind"], "PartialObjectMetadata");
    assert_eq!(event.object["apiVersion"], "meta.k8s.io/v1");
    assert!(event.object["spec"].is_null());
    crd.deleted("one").await;
    let event = watch.next_event().await;
    assert_eq!(event.brief(), ("DELETED", "one"));
    assert_eq!(event.object["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn bookmarks_of_metadata_only_watches_have_the_same_kind() {
    let api = Api::start().await;
    let parameters = [
        ("watch", "1"),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("allowWatchBookmarks", "true"),
    ];
    let path = with_query(&api.ns_path("configmaps"), &parameters);
    let mut watch = api
        .request(Method::GET, &path)
        .header("accept", ONE)
        .watch()
        .await;
    let event = watch.next_event().await;
    assert_eq!(event.kind, "BOOKMARK");
    assert_eq!(event.object["kind"], "PartialObjectMetadata");
    assert_eq!(event.object["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(
        event.object["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
}

#[tokio::test]
async fn writes_return_metadata_only_on_request() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let object = objects::config_map("one", json!({"a": "1"}));
    let made = api
        .request(Method::POST, &path)
        .header("accept", ONE)
        .json(&object)
        .send()
        .await;
    let made = made.expect_code(201);
    assert_eq!(made.json["kind"], "PartialObjectMetadata");
    assert_eq!(made.name(), "one");
    assert!(made.json["data"].is_null());
    let patched = api
        .request(Method::PATCH, &api.ns_path("configmaps/one"))
        .header("accept", ONE)
        .header("content-type", "application/merge-patch+json")
        .body(r#"{"metadata": {"labels": {"a": "b"}}}"#)
        .send()
        .await
        .expect_code(200);
    assert_eq!(patched.json["kind"], "PartialObjectMetadata");
    assert_eq!(patched.at("/metadata/labels"), &json!({"a": "b"}));
}

#[tokio::test]
async fn metadata_forms_of_lists_and_objects_are_not_interchangeable() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    api.created(&path, &objects::config_map("one", json!({})))
        .await;
    for (path, accept) in [(path.clone(), ONE), (api.ns_path("configmaps/one"), LIST)] {
        let response = api
            .request(Method::GET, &path)
            .header("accept", accept)
            .send()
            .await;
        response.expect_failure(406, "NotAcceptable");
    }
    // The `Accept` header of clients with a fallback.
    let accept = format!("{LIST},application/json");
    let response = api
        .request(Method::GET, &path)
        .header("accept", &accept)
        .send()
        .await;
    assert_eq!(
        response.expect_code(200).json["kind"],
        "PartialObjectMetadataList"
    );
}
