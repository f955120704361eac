//! Syntax of bodies: numbers, YAML, and duplicate items.

use http::Method;
use kopf_tests::{Api, ApiResponse, objects, with_query};
use serde_json::{Value, json};

#[tokio::test]
async fn whole_numbers_are_returned_as_integers() {
    let api = Api::start().await;
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = api
        .crd()
        .spec_schema(json!({
            "type": "object",
            "properties": {
                "integer": {"type": "integer"}, "number": {"type": "number"}, "free": free,
            },
        }))
        .create()
        .await;
    let body = format!(
        r#"{{"apiVersion": "{}", "kind": "Widget", "metadata": {{"name": "a"}}, "spec": {{
            "integer": 1.0, "number": 1e2, "free": {{"a": 1.0, "b": 1e2, "c": 1.5, "d": [2.0]}}
        }}}}"#,
        crd.api_version()
    );
    api.request(Method::POST, &crd.path())
        .header("content-type", "application/json")
        .body(body)
        .send()
        .await
        .expect_code(201);
    let read = crd.found("a").await;
    // Compared as strings, because a JSON parser could normalise the numbers.
    assert_eq!(
        read.json["spec"].to_string(),
        r#"{"free":{"a":1,"b":100,"c":1.5,"d":[2]},"integer":1,"number":100}"#
    );
}

async fn post(api: &Api, path: &str, yaml: impl Into<bytes::Bytes>) -> ApiResponse {
    api.request(Method::POST, path)
        .header("content-type", "application/yaml")
        .header("accept", "application/json")
        .body(yaml)
        .send()
        .await
}

fn doubled(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  k: \"1\"\n  k: \"2\"\n"
    )
}

#[tokio::test]
async fn duplicate_keys_in_yaml_are_reported_or_rejected() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let made = post(&api, &path, doubled("one")).await.expect_code(201);
    assert_eq!(made.json["data"], json!({"k": "2"}));
    assert_eq!(made.warnings(), [r#"line 7: key "k" already set in map"#]);

    let ignoring = with_query(&path, &[("fieldValidation", "Ignore")]);
    let made = post(&api, &ignoring, doubled("two")).await.expect_code(201);
    assert_eq!(made.json["data"], json!({"k": "2"}));
    assert!(made.warnings().is_empty());

    let strict = with_query(&path, &[("fieldValidation", "Strict")]);
    let refused = post(&api, &strict, doubled("three")).await;
    let refused = refused.expect_failure(400, "BadRequest");
    let message = refused.message();
    assert!(message.contains("strict decoding error"), "{message}");
    assert!(
        message.contains(r#"key "k" already set in map"#),
        "{message}"
    );
    api.get(&api.ns_path("configmaps/three"))
        .await
        .expect_failure(404, "NotFound");
}

#[tokio::test]
async fn duplicate_keys_in_yaml_of_custom_objects_are_reported_or_rejected() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let yaml = format!(
        "apiVersion: {}\nkind: Widget\nmetadata:\n  name: one\nspec:\n  k: 1\n  k: 2\n",
        crd.api_version()
    );
    let strict = with_query(&crd.path(), &[("fieldValidation", "Strict")]);
    let refused = post(&api, &strict, yaml.clone()).await;
    refused.expect_failure(400, "BadRequest");
    let made = post(&api, &crd.path(), yaml).await.expect_code(201);
    assert_eq!(made.json["spec"], json!({"k": 2}));
    assert_eq!(made.warnings(), [r#"line 7: key "k" already set in map"#]);
}

#[tokio::test]
async fn only_the_first_yaml_document_is_used() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let map = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n");
    let several = format!("{}---\n{}", map("first"), map("second"));
    let made = post(&api, &path, several).await.expect_code(201);
    assert_eq!(made.name(), "first");
    let marked = format!("---\n{}---\n{}", map("third"), map("fourth"));
    let made = post(&api, &path, marked).await.expect_code(201);
    assert_eq!(made.name(), "third");
    for name in ["second", "fourth"] {
        let missing = api.get(&format!("{path}/{name}")).await;
        missing.expect_failure(404, "NotFound");
    }
}

#[tokio::test]
async fn empty_yaml_is_an_empty_object_and_malformed_yaml_is_rejected() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let second = "---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\n";
    for empty in ["", "\n", "---\n", "# nothing but words\n", "null\n", second] {
        let refused = post(&api, &path, empty).await;
        let refused = refused.expect_failure(422, "Invalid");
        assert_eq!(
            refused.causes(),
            [("FieldValueRequired", "metadata.name")],
            "{empty:?}"
        );
    }
    for broken in ["a: [b\n", "a: b: c\n", "word\n", "- a\n"] {
        let refused = post(&api, &path, broken).await;
        refused.expect_failure(400, "BadRequest");
    }
    // A custom object must always contain its type.
    let crd = api.crd().create().await;
    let refused = post(&api, &crd.path(), "").await;
    refused.expect_failure(400, "BadRequest");
}

#[tokio::test]
async fn duplicate_owners_are_dropped_with_a_warning() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let maps = api.ns_path("configmaps");
    let owner = api
        .created(&maps, &objects::config_map("owner", json!({})))
        .await;
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(),
    });
    let twice = json!([reference, reference]);
    let assert_once = |response: &ApiResponse, when: &str| {
        assert_eq!(
            response.at("/metadata/ownerReferences"),
            &json!([reference])
        );
        let warning = format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner \
             references in 1.20+, and may reject such requests as early as 1.24; please fix your \
             requests; duplicate UID(s) observed: {}",
            owner.uid()
        );
        assert_eq!(response.warnings(), [warning]);
    };
    for (path, mut object) in [
        (&maps, objects::config_map("one", json!({}))),
        (&crd.path(), crd.object("one", json!({}))),
    ] {
        object["metadata"]["ownerReferences"] = twice.clone();
        let made = api.created(path, &object).await;
        assert_once(&made, "");
    }
    api.created(&maps, &objects::config_map("two", json!({})))
        .await;
    let patch = json!({"metadata": {"ownerReferences": twice}});
    let patched = api.merge(&format!("{maps}/two"), &patch).await;
    // The result of a patch is validated later.
    assert_once(
        &patched.expect_code(200),
        " after mutating admission happens",
    );
    let stored = api.found(&format!("{maps}/two")).await;
    assert_eq!(stored.at("/metadata/ownerReferences"), &json!([reference]));

    // The same owner with other flags is another reference.
    let mut other = reference.clone();
    other["controller"] = Value::Bool(true);
    let patch = json!({"metadata": {"ownerReferences": [reference, other]}});
    let patched = api.merge(&format!("{maps}/two"), &patch).await;
    let patched = patched.expect_code(200);
    assert_eq!(
        patched.at("/metadata/ownerReferences"),
        &json!([reference, other])
    );
    assert!(patched.warnings().is_empty());
}
