//! `fieldValidation`: what happens to fields that nobody knows, and to those given twice.

use http::Method;
use kopf_tests::{Answer, Api, objects, with_query};
use serde_json::json;

async fn post(api: &Api, path: &str, validation: &str, body: &str) -> Answer {
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
async fn strict_refuses_unknown_fields_of_built_in_kinds() {
    let api = Api::start().await;
    let answer = post(&api, &api.ns_path("configmaps"), "Strict", UNKNOWN).await;
    let answer = answer.expect_failure(400, "BadRequest");
    assert!(
        answer.message().contains("strict decoding error"),
        "{}",
        answer.message()
    );
    assert!(
        answer.message().contains(r#"unknown field "dta""#),
        "{}",
        answer.message()
    );
    assert!(
        answer
            .message()
            .contains(r#"unknown field "metadata.colour""#),
        "{}",
        answer.message()
    );
    api.finish().await;
}

#[tokio::test]
async fn strict_refuses_fields_given_twice() {
    let api = Api::start().await;
    let answer = post(&api, &api.ns_path("configmaps"), "Strict", TWICE).await;
    let answer = answer.expect_failure(400, "BadRequest");
    assert!(
        answer.message().contains(r#"duplicate field "data""#),
        "{}",
        answer.message()
    );
    api.finish().await;
}

#[tokio::test]
async fn warn_drops_unknown_fields_and_says_so() {
    let api = Api::start().await;
    let answer = post(&api, &api.ns_path("configmaps"), "Warn", UNKNOWN)
        .await
        .expect_code(201);
    assert!(answer.json["dta"].is_null());
    assert!(answer.at("/metadata/colour").is_null());
    let mut warnings = answer.warnings();
    warnings.sort_unstable();
    assert_eq!(
        warnings,
        [
            r#"unknown field "dta""#,
            r#"unknown field "metadata.colour""#
        ]
    );
    api.finish().await;
}

#[tokio::test]
async fn warn_takes_the_last_of_two_fields_and_says_so() {
    let api = Api::start().await;
    let answer = post(&api, &api.ns_path("configmaps"), "Warn", TWICE)
        .await
        .expect_code(201);
    assert_eq!(answer.at("/data/b"), "2");
    assert_eq!(answer.warnings(), [r#"duplicate field "data""#]);
    api.finish().await;
}

#[tokio::test]
async fn warn_is_what_happens_without_the_parameter() {
    let api = Api::start().await;
    let answer = api
        .request(Method::POST, &api.ns_path("configmaps"))
        .header("content-type", "application/json")
        .body(UNKNOWN)
        .send()
        .await
        .expect_code(201);
    assert_eq!(answer.warnings().len(), 2);
    api.finish().await;
}

#[tokio::test]
async fn ignore_drops_unknown_fields_silently() {
    let api = Api::start().await;
    let answer = post(&api, &api.ns_path("configmaps"), "Ignore", UNKNOWN)
        .await
        .expect_code(201);
    assert!(answer.json["dta"].is_null());
    assert_eq!(answer.warnings(), Vec::<String>::new());
    api.finish().await;
}

#[tokio::test]
async fn other_words_than_the_three_are_refused() {
    let api = Api::start().await;
    let answer = post(&api, &api.ns_path("configmaps"), "Loose", UNKNOWN).await;
    answer.expect_failure(422, "Invalid");
    api.finish().await;
}

#[tokio::test]
async fn unknown_fields_of_custom_objects_are_treated_alike() {
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

    let answer = post(&api, &crd.path(), "Strict", &body("strict")).await;
    let answer = answer.expect_failure(400, "BadRequest");
    assert!(
        answer.message().contains("strict decoding error"),
        "{}",
        answer.message()
    );
    assert!(
        answer.message().contains(r#"unknown field "spec.colour""#),
        "{}",
        answer.message()
    );

    let answer = post(&api, &crd.path(), "Warn", &body("warn"))
        .await
        .expect_code(201);
    assert_eq!(answer.json["spec"], json!({"size": 1}));
    assert!(answer.at("/metadata/shape").is_null());
    let mut warnings = answer.warnings();
    warnings.sort_unstable();
    assert_eq!(
        warnings,
        [
            r#"unknown field "metadata.shape""#,
            r#"unknown field "spec.colour""#
        ]
    );

    let answer = post(&api, &crd.path(), "Ignore", &body("ignore"))
        .await
        .expect_code(201);
    assert_eq!(answer.json["spec"], json!({"size": 1}));
    assert_eq!(answer.warnings(), Vec::<String>::new());
    api.finish().await;
}

#[tokio::test]
async fn fields_of_custom_objects_given_twice_are_noticed() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let body = format!(
        r#"{{"apiVersion": "{}", "kind": "Widget", "metadata": {{"name": "one"}},
            "spec": {{"a": 1, "a": 2}}}}"#,
        crd.api_version()
    );
    let answer = post(&api, &crd.path(), "Strict", &body).await;
    let answer = answer.expect_failure(400, "BadRequest");
    assert!(
        answer.message().contains(r#"duplicate field "spec.a""#),
        "{}",
        answer.message()
    );
    let answer = post(&api, &crd.path(), "Warn", &body)
        .await
        .expect_code(201);
    assert_eq!(answer.at("/spec/a"), 2);
    assert_eq!(answer.warnings(), [r#"duplicate field "spec.a""#]);
    api.finish().await;
}

#[tokio::test]
async fn strict_holds_for_updates_and_patches_as_well() {
    let api = Api::start().await;
    let path = api.group_path("apps/v1", "deployments");
    api.create(&path, &objects::deployment("one"))
        .await
        .expect_code(201);
    let one = with_query(
        &api.group_path("apps/v1", "deployments/one"),
        &[("fieldValidation", "Strict")],
    );
    let mut update = objects::deployment("one");
    update["spec"]["colour"] = json!("red");
    let answer = api
        .put(&one, &update)
        .await
        .expect_failure(400, "BadRequest");
    assert!(
        answer.message().contains(r#"unknown field "spec.colour""#),
        "{}",
        answer.message()
    );

    let patch = json!({"spec": {"colour": "red"}});
    let answer = api.merge(&one, &patch).await;
    assert!((400..500).contains(&answer.code), "{}", answer.text());
    assert!(
        answer.message().contains(r#"unknown field "spec.colour""#),
        "{}",
        answer.message()
    );
    api.finish().await;
}

#[tokio::test]
async fn strict_errors_of_built_in_kinds_are_in_the_order_of_the_document() {
    let api = Api::start().await;
    let body = r#"{"apiVersion": "v1", "kind": "ConfigMap", "zzz": 1,
        "metadata": {"name": "one", "name": "two", "colour": "red"},
        "data": {"a": "1", "a": "2"}, "aaa": 1}"#;
    let answer = post(&api, &api.ns_path("configmaps"), "Strict", body).await;
    let answer = answer.expect_failure(400, "BadRequest");
    let expected = concat!(
        r#"strict decoding error: unknown field "zzz", duplicate field "metadata.name", "#,
        r#"unknown field "metadata.colour", duplicate field "data.a", unknown field "aaa""#,
    );
    assert!(answer.message().ends_with(expected), "{}", answer.message());
    api.finish().await;
}
