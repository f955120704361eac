//! Malformed parameters, methods and paths.

use http::Method;
use kopf_tests::{Api, objects::config_map, with_query};
use serde_json::{Value, json};

#[tokio::test]
async fn unknown_parameters_are_ignored() {
    let api = Api::start().await;
    let path = format!("{}?pretty=true&nosuch=1&bare", api.ns_path("configmaps"));
    api.created(&path, &config_map("a", Value::Null)).await;
    assert_eq!(api.found(&path).await.item_names(), ["a"]);
}

#[tokio::test]
async fn invalid_numbers_are_rejected() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    for name in ["limit", "timeoutSeconds"] {
        let refused = api.get(&with_query(&maps, &[(name, "many")])).await;
        refused.expect_failure(400, "BadRequest");
    }
}

#[tokio::test]
async fn only_false_and_zero_are_false() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    api.create(&maps, &config_map("a", Value::Null)).await.ok();
    for value in ["false", "0"] {
        let list = api.found(&with_query(&maps, &[("watch", value)])).await;
        assert_eq!(list.json["kind"], "ConfigMapList", "{value}");
    }
    for value in ["true", "1", "whatever"] {
        let path = with_query(&maps, &[("watch", value)]);
        let mut watch = api.request(Method::GET, &path).watch().await;
        assert_eq!(watch.next_change().await.brief(), ("ADDED", "a"), "{value}");
    }
}

#[tokio::test]
async fn options_with_unknown_values_are_rejected() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let path = api.ns_path("configmaps/a");
    api.create(&maps, &config_map("a", Value::Null)).await.ok();
    let long = "x".repeat(129);
    for (name, value, reason) in [
        ("dryRun", "Some", "FieldValueNotSupported"),
        ("dryRun", "", "FieldValueNotSupported"),
        ("fieldValidation", "Sometimes", "FieldValueNotSupported"),
        ("fieldManager", &long, "FieldValueTooLong"),
    ] {
        let parameters = [(name, value)];
        let create = api
            .create(
                &with_query(&maps, &parameters),
                &config_map("b", Value::Null),
            )
            .await;
        let merge = api
            .merge(
                &with_query(&path, &parameters),
                &json!({"data": {"x": "1"}}),
            )
            .await;
        let put = api
            .put(
                &with_query(&path, &parameters),
                &config_map("a", json!({"x": "1"})),
            )
            .await;
        for (refused, kind) in [
            (create, "CreateOptions"),
            (merge, "PatchOptions"),
            (put, "UpdateOptions"),
        ] {
            let refused = refused.expect_failure(422, "Invalid");
            assert!(
                refused.causes().contains(&(reason, name)),
                "{}",
                refused.text()
            );
            assert_eq!(refused.details()["kind"], kind);
            assert_eq!(refused.details()["group"], "meta.k8s.io");
        }
    }
    let list = api.get(&maps).await.ok();
    assert_eq!(list.item_names(), ["a"]);
    assert_eq!(list.items()[0]["data"], Value::Null);
}

#[tokio::test]
async fn unsupported_methods_are_rejected() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let path = api.ns_path("configmaps/a");
    let object = config_map("a", Value::Null);
    for (method, path) in [
        (Method::PUT, maps.as_str()),
        (Method::PATCH, maps.as_str()),
        (Method::POST, path.as_str()),
        (Method::OPTIONS, path.as_str()),
        (Method::POST, "/api/v1/configmaps"),
        (Method::PUT, "/api/v1/namespaces"),
    ] {
        let refused = api.request(method, path).json(&object).send().await;
        refused.expect_failure(405, "MethodNotAllowed");
    }
}

#[tokio::test]
async fn scope_of_a_kind_is_part_of_its_path() {
    let api = Api::start().await;
    for path in [
        &api.ns_path("nodes"),
        &api.ns_path("namespaces"),
        &api.ns_path("persistentvolumes/x"),
        "/api/v1/configmaps/x",
        "/apis/apps/v1/deployments/x",
    ] {
        api.get(path).await.expect_failure(404, "NotFound");
    }
    let crd = api.crd().cluster_scoped().create().await;
    api.get(&api.group_path(&crd.api_version(), "widgets"))
        .await
        .expect_code(404);
    let namespaced = api
        .crd()
        .named("gadgets", "gadget", "Gadget")
        .create()
        .await;
    let outside = format!("{}/x", namespaced.path_everywhere());
    api.get(&outside).await.expect_code(404);
}

#[tokio::test]
async fn malformed_paths_are_not_found() {
    let api = Api::start().await;
    api.create(&api.ns_path("configmaps"), &config_map("a", Value::Null))
        .await
        .ok();
    for path in [
        "/api/v1//namespaces".to_owned(),
        "//api/v1/namespaces".to_owned(),
        api.ns_path("configmaps/./a"),
        api.ns_path("configmaps/a%2Fb"),
        api.ns_path("configmaps/a/nosuch"),
        api.ns_path("configmaps/a/b/c"),
    ] {
        api.get(&path).await.expect_code(404);
    }
    api.get(&api.ns_path("configmaps/%zz"))
        .await
        .expect_code(400);
    api.get(&api.ns_path("configmaps/.."))
        .await
        .expect_failure(400, "BadRequest");
}

#[tokio::test]
async fn paths_are_decoded_and_a_trailing_slash_is_ignored() {
    let api = Api::start().await;
    api.create(&api.ns_path("configmaps"), &config_map("a", Value::Null))
        .await
        .ok();
    let encoded = api.found(&api.ns_path("configmaps/%61")).await;
    assert_eq!(encoded.name(), "a");
    let slash = api.found(&api.ns_path("configmaps/a/")).await;
    assert_eq!(slash.name(), "a");
    let slash = api.found(&api.ns_path("configmaps/")).await;
    assert_eq!(slash.item_names(), ["a"]);
    // An impossible name is not an error of the path.
    let upper = api.get(&api.ns_path("configmaps/Not_A_Name")).await;
    assert_eq!(
        upper.expect_failure(404, "NotFound").details()["name"],
        "Not_A_Name"
    );
}

#[tokio::test]
async fn timeouts_without_a_unit_are_rejected() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    for bad in ["invalid", "5", "5x"] {
        let response = api.get(&format!("{maps}?timeout={bad}")).await;
        let response = response.expect_failure(400, "BadRequest");
        let begin = "invalid timeout specified in the request URL";
        assert!(
            response.message().starts_with(begin),
            "{}",
            response.message()
        );
    }
    api.found(&format!("{maps}?timeout=5s")).await;
}
