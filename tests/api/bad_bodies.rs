//! Malformed request bodies.

use http::Method;
use kopf_tests::{Api, ApiResponse, objects::config_map};
use serde_json::{Value, json};

async fn post(api: &Api, content_type: &str, body: impl Into<Vec<u8>>) -> ApiResponse {
    let request = api.request(Method::POST, &api.ns_path("configmaps"));
    request
        .header("content-type", content_type)
        .body(body.into())
        .send()
        .await
}

async fn post_json(api: &Api, body: impl Into<Vec<u8>>) -> ApiResponse {
    post(api, "application/json", body).await
}

async fn assert_nothing_stored(api: &Api) {
    assert!(
        api.get(&api.ns_path("configmaps"))
            .await
            .ok()
            .items()
            .is_empty()
    );
}

#[tokio::test]
async fn malformed_json_is_rejected() {
    let api = Api::start().await;
    for body in [
        "",
        " ",
        "{broken",
        "{\"apiVersion\": \"v1\"",
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}} and more",
        "[]",
        "\"text\"",
        "1",
        "true",
        "{\"metadata\": {\"name\": 'a'}}",
    ] {
        post_json(&api, body)
            .await
            .expect_failure(400, "BadRequest");
    }
    post_json(&api, b"\xff\xfe{}".to_vec())
        .await
        .expect_failure(400, "BadRequest");
    assert_nothing_stored(&api).await;
    let crd = api.crd().create().await;
    for body in ["", "{broken", "[]", "1"] {
        let request = api.request(Method::POST, &crd.path());
        let response = request
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await;
        response.expect_failure(400, "BadRequest");
    }
}

#[tokio::test]
async fn deep_nesting_is_rejected() {
    let api = Api::start().await;
    post_json(&api, "[".repeat(200_000))
        .await
        .expect_failure(400, "BadRequest");
    let deep = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"a\"}},\"data\":{}1{}}}",
        "{\"a\":".repeat(20_000),
        "}".repeat(20_000)
    );
    post_json(&api, deep)
        .await
        .expect_failure(400, "BadRequest");
    let yaml = format!("{}a{}", "[".repeat(5_000), "]".repeat(5_000));
    post(&api, "application/yaml", yaml)
        .await
        .expect_failure(400, "BadRequest");
    assert_nothing_stored(&api).await;
}

#[tokio::test]
async fn invalid_utf8_in_strings_is_replaced() {
    let api = Api::start().await;
    let mut body = b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\
                     \"data\":{\"x\":\""
        .to_vec();
    body.extend_from_slice(b"\xff\"}}");
    let created = post_json(&api, body).await.expect_code(201);
    assert_eq!(created.at("/data/x"), "\u{fffd}");
}

#[tokio::test]
async fn kind_and_version_must_match_the_path() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    for (version, kind) in [("v1", "Secret"), ("apps/v1", "ConfigMap"), ("v1", "Nosuch")] {
        let mut object = config_map("a", Value::Null);
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        api.create(&maps, &object)
            .await
            .expect_failure(400, "BadRequest");
    }
    let crd = api.crd().create().await;
    let mut object = crd.object("a", json!({}));
    object["apiVersion"] = json!("other.example.com/v1");
    api.create(&crd.path(), &object)
        .await
        .expect_failure(400, "BadRequest");
    // Custom resources are not decoded into types, so the error is found later.
    let mut object = crd.object("a", json!({}));
    object["kind"] = json!("Gadget");
    let refused = api
        .create(&crd.path(), &object)
        .await
        .expect_failure(422, "Invalid");
    assert_eq!(refused.causes(), [("FieldValueInvalid", "kind")]);
    assert!(api.get(&crd.path()).await.ok().items().is_empty());
    assert_nothing_stored(&api).await;
}

#[tokio::test]
async fn kind_defaults_to_that_of_the_path() {
    let api = Api::start().await;
    let body = json!({"metadata": {"name": "a"}, "data": {"x": "1"}});
    let created = api.created(&api.ns_path("configmaps"), &body).await;
    assert_eq!(created.json["kind"], "ConfigMap");
    assert_eq!(created.json["apiVersion"], "v1");
}

#[tokio::test]
async fn fields_of_a_wrong_type_are_rejected() {
    let api = Api::start().await;
    for (pointer, value) in [
        ("data", json!({"a": 1})),
        ("data", json!(["a"])),
        ("metadata", json!("a")),
        ("metadata", json!({"name": 5})),
        ("metadata", json!({"name": "a", "labels": ["b"]})),
        ("metadata", json!({"name": "a", "finalizers": "b"})),
        ("immutable", json!("yes")),
    ] {
        let mut object = config_map("a", Value::Null);
        object[pointer] = value;
        let refused = api.create(&api.ns_path("configmaps"), &object).await;
        refused.expect_failure(400, "BadRequest");
    }
    assert_nothing_stored(&api).await;
}

#[tokio::test]
async fn namespace_must_match_the_path() {
    let api = Api::start().await;
    let mut object = config_map("a", Value::Null);
    object["metadata"]["namespace"] = json!("default");
    let refused = api.create(&api.ns_path("configmaps"), &object).await;
    refused.expect_failure(400, "BadRequest");
    assert_nothing_stored(&api).await;
}

#[tokio::test]
async fn huge_bodies_are_rejected() {
    let api = Api::start().await;
    let huge = config_map("a", json!({"x": "x".repeat(3 * 1024 * 1024 + 1)}));
    let refused = api.create(&api.ns_path("configmaps"), &huge).await;
    refused.expect_failure(413, "RequestEntityTooLarge");
    assert_nothing_stored(&api).await;
    // The limit of the data of a ConfigMap is lower.
    let large = config_map("a", json!({"x": "x".repeat(1024 * 1024 + 1)}));
    let refused = api.create(&api.ns_path("configmaps"), &large).await;
    let refused = refused.expect_failure(422, "Invalid");
    assert_eq!(refused.causes()[0].0, "FieldValueTooLong");
}

#[tokio::test]
async fn yaml_is_accepted_with_its_content_type() {
    let api = Api::start().await;
    let body =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    one\n    two\n";
    let created = post(&api, "application/yaml", body).await.expect_code(201);
    assert_eq!(created.content_type(), "application/json");
    assert_eq!(created.json["data"], json!({"x": "one\ntwo\n"}));
    post(&api, "application/yaml", "apiVersion: [v1")
        .await
        .expect_failure(400, "BadRequest");
    post_json(&api, body)
        .await
        .expect_failure(400, "BadRequest");

    let path = api.ns_path("configmaps/a");
    let read = api
        .request(Method::GET, &path)
        .header("accept", "application/yaml")
        .send()
        .await;
    let read = read.expect_code(200);
    assert_eq!(read.content_type(), "application/yaml");
    assert!(
        read.text().starts_with("apiVersion: v1\n"),
        "{}",
        read.text()
    );
    assert!(
        read.text().contains("\nkind: ConfigMap\n"),
        "{}",
        read.text()
    );
}

#[tokio::test]
async fn unknown_formats_are_rejected_in_both_directions() {
    let api = Api::start().await;
    let object = config_map("a", Value::Null).to_string();
    let refused = post(&api, "text/plain", object.clone()).await;
    refused.expect_failure(415, "UnsupportedMediaType");
    let maps = api.ns_path("configmaps");
    let silent = api.request(Method::POST, &maps).body(object).send().await;
    silent.expect_code(201);
    for accept in ["text/html", "application/nonsense"] {
        let refused = api
            .request(Method::GET, &maps)
            .header("accept", accept)
            .send()
            .await;
        refused.expect_failure(406, "NotAcceptable");
    }
    for accept in ["*/*", "text/html,*/*;q=0.1"] {
        let list = api
            .request(Method::GET, &maps)
            .header("accept", accept)
            .send()
            .await;
        assert_eq!(
            list.expect_code(200).content_type(),
            "application/json",
            "{accept}"
        );
    }
}
