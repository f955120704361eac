//! The verbs on whole objects, and paths that do not support them.

use http::Method;
use kopf_tests::{Api, objects, with_query};
use serde_json::json;

#[tokio::test]
async fn created_object_can_be_read_back() {
    let api = Api::start().await;
    let made = api
        .created(
            &api.ns_path("configmaps"),
            &objects::config_map("one", json!({"key": "value"})),
        )
        .await;
    assert_eq!(made.content_type(), "application/json");
    assert_eq!(made.json["kind"], "ConfigMap");
    assert_eq!(made.json["apiVersion"], "v1");

    let read = api.found(&api.ns_path("configmaps/one")).await;
    assert_eq!(read.json, made.json);
}

#[tokio::test]
async fn list_is_sorted_by_name_and_has_a_version() {
    let api = Api::start().await;
    for name in ["middle", "first", "last", "first-a"] {
        let path = api.ns_path("configmaps");
        api.created(&path, &objects::config_map(name, json!({})))
            .await;
    }
    let list = api.found(&api.ns_path("configmaps")).await;
    assert_eq!(list.json["kind"], "ConfigMapList");
    assert_eq!(list.json["apiVersion"], "v1");
    assert_eq!(list.item_names(), ["first", "first-a", "last", "middle"]);
    assert!(list.resource_version().parse::<u64>().unwrap() > 0);
}

#[tokio::test]
async fn empty_list_has_items_and_a_version() {
    let api = Api::start().await;
    let list = api.found(&api.ns_path("configmaps")).await;
    assert_eq!(list.json["items"], json!([]));
    assert!(list.resource_version().parse::<u64>().unwrap() > 0);
}

#[tokio::test]
async fn only_items_of_custom_lists_have_a_kind() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    crd.created("one", json!({})).await;
    let path = api.ns_path("configmaps");
    api.created(&path, &objects::config_map("one", json!({})))
        .await;

    let custom = api.found(&crd.path()).await;
    assert_eq!(custom.json["kind"], "WidgetList");
    assert_eq!(custom.json["apiVersion"], crd.api_version());
    assert_eq!(custom.at("/items/0/kind"), "Widget");
    assert_eq!(custom.at("/items/0/apiVersion"), &json!(crd.api_version()));

    let built_in = api.found(&path).await;
    assert_eq!(built_in.at("/items/0/metadata/name"), "one");
    assert!(built_in.at("/items/0/kind").is_null());
    assert!(built_in.at("/items/0/apiVersion").is_null());
}

#[tokio::test]
async fn list_of_all_namespaces_has_their_objects() {
    let api = Api::start().await;
    let other = api.unique("other");
    api.create_namespace(&other).await;
    let mark = api.unique("mark");
    let object = objects::labelled("same-name", &json!({"mark": mark}));
    api.created(&api.ns_path("configmaps"), &object).await;
    let there = format!("/api/v1/namespaces/{other}/configmaps");
    api.created(&there, &object).await;

    let selector = format!("mark={mark}");
    let path = with_query("/api/v1/configmaps", &[("labelSelector", &selector)]);
    let list = api.found(&path).await;
    let mut namespaces: Vec<_> = list
        .items()
        .iter()
        .map(|item| item["metadata"]["namespace"].as_str().unwrap())
        .collect();
    namespaces.sort_unstable();
    let mut expected = [api.namespace(), &other];
    expected.sort_unstable();
    assert_eq!(namespaces, expected);
}

#[tokio::test]
async fn update_replaces_the_whole_object() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let mut object = objects::config_map("one", json!({"old": "1", "kept": "1"}));
    object["metadata"]["labels"] = json!({"old": "1"});
    let made = api.created(&api.ns_path("configmaps"), &object).await;

    let update = objects::config_map("one", json!({"kept": "2", "new": "2"}));
    let updated = api.replaced(&path, &update).await;
    assert_eq!(updated.json["data"], json!({"kept": "2", "new": "2"}));
    assert!(updated.at("/metadata/labels").is_null());
    assert_eq!(updated.uid(), made.uid());
    assert_eq!(
        updated.at("/metadata/creationTimestamp"),
        made.at("/metadata/creationTimestamp")
    );
    assert_eq!(api.get(&path).await.json, updated.json);
}

#[tokio::test]
async fn deletion_returns_a_status_with_the_object() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    let made = api.created(&api.ns_path("configmaps"), &object).await;

    let response = api.deleted(&path).await;
    assert_eq!(response.json["kind"], "Status");
    assert_eq!(response.json["status"], "Success");
    assert_eq!(response.details()["name"], "one");
    assert_eq!(response.details()["kind"], "configmaps");
    assert_eq!(response.details()["uid"], made.uid());
    api.get(&path).await.expect_code(404);
}

#[tokio::test]
async fn deletion_of_a_collection_applies_its_selector() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    for (name, colour) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let object = objects::labelled(name, &json!({"colour": colour}));
        api.created(&path, &object).await;
    }
    let reds = with_query(&path, &[("labelSelector", "colour=red")]);
    let response = api.deleted(&reds).await;
    assert_eq!(response.json["kind"], "ConfigMapList");
    assert_eq!(response.item_names(), ["a", "c"]);
    assert_eq!(api.get(&path).await.item_names(), ["b"]);
}

#[tokio::test]
async fn collection_of_custom_objects_is_deleted() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    for name in ["a", "b", "c"] {
        crd.created(name, json!({})).await;
    }
    let one = with_query(&crd.path(), &[("fieldSelector", "metadata.name=b")]);
    api.deleted(&one).await;
    assert_eq!(api.get(&crd.path()).await.item_names(), ["a", "c"]);
    api.deleted(&crd.path()).await;
    assert_eq!(api.get(&crd.path()).await.item_names(), Vec::<&str>::new());
}

#[tokio::test]
async fn unsupported_methods_are_rejected() {
    let api = Api::start().await;
    let object = objects::config_map("one", json!({}));
    let collection = api.ns_path("configmaps");
    for (method, path) in [
        (Method::PUT, collection.as_str()),
        (Method::PATCH, collection.as_str()),
        (Method::POST, &api.ns_path("configmaps/one")),
        (Method::POST, "/api/v1/configmaps"),
        (Method::DELETE, "/api/v1/namespaces"),
        (Method::DELETE, "/api/v1/configmaps"),
    ] {
        let response = api.request(method, path).json(&object).send().await;
        response.expect_failure(405, "MethodNotAllowed");
    }
}

#[tokio::test]
async fn yaml_is_supported_in_both_directions() {
    let api = Api::start().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  key: \"1\"\n";
    let made = api
        .request(Method::POST, &api.ns_path("configmaps"))
        .header("content-type", "application/yaml")
        .header("accept", "application/json")
        .body(yaml)
        .send()
        .await
        .expect_code(201);
    assert_eq!(made.json["data"], json!({"key": "1"}));

    let read = api
        .request(Method::GET, &api.ns_path("configmaps/one"))
        .header("accept", "application/yaml")
        .send()
        .await
        .expect_code(200);
    assert_eq!(read.content_type(), "application/yaml");
    assert!(read.text().contains("kind: ConfigMap\n"), "{}", read.text());
    assert!(read.text().contains("  key: \"1\"\n"), "{}", read.text());
}

#[tokio::test]
async fn field_manager_of_a_write_is_accepted() {
    let api = Api::start().await;
    let managed = |path: &str| with_query(path, &[("fieldManager", "a-manager")]);
    let object = objects::config_map("one", json!({"key": "1"}));
    let one = api.ns_path("configmaps/one");
    api.created(&managed(&api.ns_path("configmaps")), &object)
        .await;
    api.replaced(&managed(&one), &object).await;
    api.merged(&managed(&one), &json!({"data": {"key": "2"}}))
        .await;
}
