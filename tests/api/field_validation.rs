//! `fieldValidation`: unknown and duplicate fields.

use http::Method;
use kopf_tests::{Api, ApiResponse, objects, with_query};
use serde_json::json;

async fn post(api: &Api, path: &str, validation: &str, body: &str) -> ApiResponse {
    api.request(
        Method::POST,
        &with_query(path, &[("fieldValidation", validation)]),
    )
    .header("content-type", "application/json")
    .body(body.to_owned())
    .send()
    .await
}

const UNKNOWN: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap",
    "metadata": {"name": "one", "colour": "red"}, "dta": {"key": "value"}}"#;
const TWICE: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap",
    "metadata": {"name": "one"}, "data": {"a": "1"}, "data": {"b": "2"}}"#;

#[tokio::test]
async fn strict_rejects_unknown_fields_of_built_in_kinds() {
    let api = Api::start().await;
    let response = post(&api, &api.ns_path("configmaps"), "Strict", UNKNOWN).await;
    let response = response.expect_failure(400, "BadRequest");
    assert!(
        response.message().contains("strict decoding error"),
        "{}",
        response.message()
    );
    assert!(
        response.message().contains(r#"unknown field "dta""#),
        "{}",
        response.message()
    );
    assert!(
        response
            .message()
            .contains(r#"unknown field "metadata.colour""#),
        "{}",
        response.message()
    );
}

#[tokio::test]
async fn strict_rejects_duplicate_fields() {
    let api = Api::start().await;
    let response = post(&api, &api.ns_path("configmaps"), "Strict", TWICE).await;
    let response = response.expect_failure(400, "BadRequest");
    assert!(
        response.message().contains(r#"duplicate field "data""#),
        "{}",
        response.message()
    );
}

#[tokio::test]
async fn warn_drops_unknown_fields_with_a_warning() {
    let api = Api::start().await;
    let response = post(&api, &api.ns_path("configmaps"), "Warn", UNKNOWN)
        .await
        .expect_code(201);
    assert!(response.json["dta"].is_null());
    assert!(response.at("/metadata/colour").is_null());
    let mut warnings = response.warnings();
    warnings.sort_unstable();
    assert_eq!(
        warnings,
        [
            r#"unknown field "dta""#,
            r#"unknown field "metadata.colour""#
        ]
    );
}

#[tokio::test]
async fn warn_uses_the_last_duplicate_field_with_a_warning() {
    let api = Api::start().await;
    let response = post(&api, &api.ns_path("configmaps"), "Warn", TWICE)
        .await
        .expect_code(201);
    assert_eq!(response.at("/data/b"), "2");
    assert_eq!(response.warnings(), [r#"duplicate field "data""#]);
}

#[tokio::test]
async fn warn_is_the_default() {
    let api = Api::start().await;
    let response = api
        .request(Method::POST, &api.ns_path("configmaps"))
        .header("content-type", "application/json")
        .body(UNKNOWN)
        .send()
        .await
        .expect_code(201);
    assert_eq!(response.warnings().len(), 2);
}

#[tokio::test]
async fn ignore_drops_unknown_fields_silently() {
    let api = Api::start().await;
    let response = post(&api, &api.ns_path("configmaps"), "Ignore", UNKNOWN)
        .await
        .expect_code(201);
    assert!(response.json["dta"].is_null());
    assert_eq!(response.warnings(), Vec::<String>::new());
}

#[tokio::test]
async fn unknown_modes_are_rejected() {
    let api = Api::start().await;
    let response = post(&api, &api.ns_path("configmaps"), "Loose", UNKNOWN).await;
    response.expect_failure(422, "Invalid");
}

#[tokio::test]
async fn unknown_fields_of_custom_objects_follow_the_mode() {
    let api = Api::start().await;
    let crd = api
        .crd()
        .spec_schema(json!({"type": "object", "properties": {"size": {"type": "integer"}}}))
        .create()
        .await;
    let body = |name| {
        let mut object = crd.object(name, json!({"size": 1, "colour": "red"}));
        object["metadata"]["shape"] = json!("round");
        object.to_string()
    };

    let response = post(&api, &crd.path(), "Strict", &body("strict")).await;
    let response = response.expect_failure(400, "BadRequest");
    assert!(
        response.message().contains("strict decoding error"),
        "{}",
        response.message()
    );
    assert!(
        response
            .message()
            .contains(r#"unknown field "spec.colour""#),
        "{}",
        response.message()
    );

    let response = post(&api, &crd.path(), "Warn", &body("warn"))
        .await
        .expect_code(201);
    assert_eq!(response.json["spec"], json!({"size": 1}));
    assert!(response.at("/metadata/shape").is_null());
    let mut warnings = response.warnings();
    warnings.sort_unstable();
    assert_eq!(
        warnings,
        [
            r#"unknown field "metadata.shape""#,
            r#"unknown field "spec.colour""#
        ]
    );

    let response = post(&api, &crd.path(), "Ignore", &body("ignore"))
        .await
        .expect_code(201);
    assert_eq!(response.json["spec"], json!({"size": 1}));
    assert_eq!(response.warnings(), Vec::<String>::new());
}

#[tokio::test]
async fn duplicate_fields_of_custom_objects_follow_the_mode() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let body = format!(
        r#"{{"apiVersion": "{}", "kind": "Widget", "metadata": {{"name": "one"}},
            "spec": {{"a": 1, "a": 2}}}}"#,
        crd.api_version()
    );
    let response = post(&api, &crd.path(), "Strict", &body).await;
    let response = response.expect_failure(400, "BadRequest");
    assert!(
        response.message().contains(r#"duplicate field "spec.a""#),
        "{}",
        response.message()
    );
    let response = post(&api, &crd.path(), "Warn", &body)
        .await
        .expect_code(201);
    assert_eq!(response.at("/spec/a"), 2);
    assert_eq!(response.warnings(), [r#"duplicate field "spec.a""#]);
}

#[tokio::test]
async fn strict_applies_to_updates_and_patches() {
    let api = Api::start().await;
    let path = api.group_path("apps/v1", "deployments");
    api.created(&path, &objects::deployment("one")).await;
    let one = with_query(
        &api.group_path("apps/v1", "deployments/one"),
        &[("fieldValidation", "Strict")],
    );
    let mut update = objects::deployment("one");
    update["spec"]["colour"] = json!("red");
    let response = api
        .put(&one, &update)
        .await
        .expect_failure(400, "BadRequest");
    assert!(
        response
            .message()
            .contains(r#"unknown field "spec.colour""#),
        "{}",
        response.message()
    );

    let patch = json!({"spec": {"colour": "red"}});
    let response = api.merge(&one, &patch).await;
    assert!((400..500).contains(&response.code), "{}", response.text());
    assert!(
        response
            .message()
            .contains(r#"unknown field "spec.colour""#),
        "{}",
        response.message()
    );
}

#[tokio::test]
async fn strict_errors_of_built_in_kinds_are_in_the_order_of_the_document() {
    let api = Api::start().await;
    let body = r#"{"apiVersion": "v1", "kind": "ConfigMap", "zzz": 1,
        "metadata": {"name": "one", "name": "two", "colour": "red"},
        "data": {"a": "1", "a": "2"}, "aaa": 1}"#;
    let response = post(&api, &api.ns_path("configmaps"), "Strict", body).await;
    let response = response.expect_failure(400, "BadRequest");
    let expected = concat!(
        r#"strict decoding error: unknown field "zzz", duplicate field "metadata.name", "#,
        r#"unknown field "metadata.colour", duplicate field "data.a", unknown field "aaa""#,
    );
    assert!(
        response.message().ends_with(expected),
        "{}",
        response.message()
    );
}
