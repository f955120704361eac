//! Errors: code, reason and details.

use http::Method;
use kopf_tests::{Api, objects};
use serde_json::json;

async fn posted(api: &Api, body: impl Into<bytes::Bytes>) -> kopf_tests::ApiResponse {
    api.request(Method::POST, &api.ns_path("configmaps"))
        .header("content-type", "application/json")
        .body(body)
        .send()
        .await
}

#[tokio::test]
async fn error_of_a_missing_object_names_it() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let response = api
        .get(&api.ns_path("configmaps/none"))
        .await
        .expect_failure(404, "NotFound");
    assert_eq!(
        response.details(),
        &json!({"name": "none", "kind": "configmaps"})
    );
    assert_eq!(response.message(), r#"configmaps "none" not found"#);

    let response = api
        .delete(&api.group_path("apps/v1", "deployments/none"))
        .await;
    let response = response.expect_failure(404, "NotFound");
    assert_eq!(
        response.details(),
        &json!({"name": "none", "group": "apps", "kind": "deployments"})
    );
    assert_eq!(response.message(), r#"deployments.apps "none" not found"#);

    let response = api
        .get(&crd.path_of("none"))
        .await
        .expect_failure(404, "NotFound");
    assert_eq!(response.details()["kind"], "widgets");
    assert_eq!(response.details()["group"], crd.group());
    assert_eq!(response.details()["name"], "none");
}

#[tokio::test]
async fn unknown_resource_or_group_is_not_found() {
    let api = Api::start().await;
    let unknown = api.get(&api.ns_path("gadgets")).await;
    unknown.expect_failure(404, "NotFound");
    for path in [
        "/apis/no-such-group.example.com/v1/gadgets",
        "/apis/apps/v0/deployments",
        "/no-such-path",
    ] {
        api.get(path).await.expect_code(404);
    }
}

#[tokio::test]
async fn malformed_bodies_are_rejected() {
    let api = Api::start().await;
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    for body in [
        "",
        "{",
        "[]",
        "\"text\"",
        "5",
        "{\"metadata\": {\"name\": \"one\"}} trailing",
    ] {
        posted(&api, body).await.expect_failure(400, "BadRequest");
    }
    for body in [
        deep.clone(),
        format!(r#"{{"metadata": {{"name": "one"}}, "data": {deep}}}"#),
        format!(r#"{{"metadata": {{"name": "one"}}, "unknown": {deep}}}"#),
    ] {
        posted(&api, body).await.expect_failure(400, "BadRequest");
    }
    posted(&api, vec![0xff, 0xfe, 0x00])
        .await
        .expect_failure(400, "BadRequest");
    assert_eq!(api.get(&api.ns_path("configmaps")).await.items().len(), 0);
}

#[tokio::test]
async fn object_of_another_kind_is_rejected() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let path = api.ns_path("configmaps");
    for (version, kind) in [
        ("v1", "Secret"),
        ("apps/v1", "ConfigMap"),
        ("v1", "NoSuchKind"),
    ] {
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "one"}});
        api.create(&path, &object)
            .await
            .expect_failure(400, "BadRequest");
        api.create(&crd.path(), &object)
            .await
            .expect_failure(400, "BadRequest");
    }
}

#[tokio::test]
async fn kind_and_version_of_built_in_objects_are_optional() {
    let api = Api::start().await;
    let made = api
        .create(
            &api.ns_path("configmaps"),
            &json!({"metadata": {"name": "one"}}),
        )
        .await;
    let made = made.expect_code(201);
    assert_eq!(made.json["kind"], "ConfigMap");
    assert_eq!(made.json["apiVersion"], "v1");
}

#[tokio::test]
async fn unsupported_content_types_are_rejected() {
    let api = Api::start().await;
    let object = objects::config_map("one", json!({})).to_string();
    let response = api
        .request(Method::POST, &api.ns_path("configmaps"))
        .header("content-type", "text/plain")
        .body(object)
        .send()
        .await;
    response.expect_failure(415, "UnsupportedMediaType");
}

#[tokio::test]
async fn unsupported_accept_headers_are_rejected() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let response = api
        .request(Method::GET, &path)
        .header("accept", "text/html")
        .send()
        .await;
    response.expect_failure(406, "NotAcceptable");
    let several = "text/html, application/json;q=0.5";
    api.request(Method::GET, &path)
        .header("accept", several)
        .send()
        .await
        .expect_code(200);
    api.request(Method::GET, &path)
        .header("accept", "*/*")
        .send()
        .await
        .expect_code(200);
}

#[tokio::test]
async fn bodies_have_at_most_three_megabytes() {
    let api = Api::start().await;
    let object = objects::config_map("one", json!({"key": "x".repeat(3 * 1024 * 1024)}));
    let response = posted(&api, object.to_string()).await;
    response.expect_failure(413, "RequestEntityTooLarge");
}

#[tokio::test]
async fn data_of_a_config_map_has_at_most_one_megabyte() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let object = objects::config_map("one", json!({"key": "x".repeat(1024 * 1024)}));
    api.created(&path, &object).await;
    let object = objects::config_map("two", json!({"key": "x".repeat(1024 * 1024 + 1)}));
    let response = api
        .create(&path, &object)
        .await
        .expect_failure(422, "Invalid");
    assert_eq!(response.causes()[0].0, "FieldValueTooLong");
}

#[tokio::test]
async fn invalid_object_is_rejected_with_all_causes() {
    let api = Api::start().await;
    let mut object = objects::config_map("Bad Name", json!({"bad key": "x"}));
    object["metadata"]["labels"] = json!({"bad label": "x"});
    let response = api.create(&api.ns_path("configmaps"), &object).await;
    let response = response.expect_failure(422, "Invalid");
    assert_eq!(response.details()["kind"], "ConfigMap");
    assert_eq!(response.details()["name"], "Bad Name");
    let mut fields: Vec<_> = response
        .causes()
        .into_iter()
        .map(|(_, field)| field)
        .collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        ["data[bad key]", "metadata.labels", "metadata.name"]
    );
    for cause in response.details()["causes"].as_array().unwrap() {
        assert!(
            cause["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
    }
    assert!(
        response
            .message()
            .starts_with(r#"ConfigMap "Bad Name" is invalid: ["#)
    );
}

#[tokio::test]
async fn errors_are_statuses_in_json() {
    let api = Api::start().await;
    let response = api
        .get(&api.ns_path("configmaps/none"))
        .await
        .expect_code(404);
    assert_eq!(response.content_type(), "application/json");
    assert_eq!(response.json["kind"], "Status");
    assert_eq!(response.json["apiVersion"], "v1");
    assert_eq!(response.json["status"], "Failure");
    assert_eq!(response.json["metadata"], json!({}));
    assert_eq!(response.json["code"], 404);
}
