//! Tests of expensive requests: each takes a bounded time and memory.
//!
//! With quadratic cost, each of them would take minutes.
#![allow(
    clippy::needless_pass_by_value,
    reason = "helper functions of tests are tests"
)]

use http::Method;
use kopf_sandbox::Sandbox;
use serde_json::{Value, json};

use crate::support::{Api, ApiResponse, DEFINITIONS, definition, in_time, request};

const WIDGETS: &str = "/apis/test.dev/v1/namespaces/default/widgets";

/// Creates a CRD with this schema of `spec`.
async fn install(api: &Api, spec: Value) -> ApiResponse {
    let mut crd = definition("widgets", "Widget");
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "properties": {"spec": spec}});
    api.create(DEFINITIONS, &crd).await
}

fn widget(spec: Value) -> Value {
    json!({
        "apiVersion": "test.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec,
    })
}

fn list_of(items: Value) -> Value {
    json!({"type": "object", "properties": {"list": {"type": "array", "items": items}}})
}

#[tokio::test]
async fn many_invalid_items_are_rejected_with_a_limited_number_of_errors() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    install(&api, list_of(json!({"type": "integer"})))
        .await
        .expect(201);
    let wrong = widget(json!({"list": vec!["x"; 200_000]}));
    let refused = in_time("a refusal", api.create(WIDGETS, &wrong)).await;
    let causes = refused.expect(422).json()["details"]["causes"].clone();
    assert_eq!(causes.as_array().unwrap().len(), 1000);
    sandbox.shutdown().await;
}

#[tokio::test]
async fn large_keyed_lists_are_compared_with_old_values() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let mut schema = list_of(json!({
        "type": "object", "required": ["k"],
        "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
    }));
    schema["properties"]["list"]["x-kubernetes-list-type"] = json!("map");
    schema["properties"]["list"]["x-kubernetes-list-map-keys"] = json!(["k"]);
    install(&api, schema).await.expect(201);
    let items: Vec<Value> = (0..20_000)
        .map(|number| json!({"k": number.to_string(), "v": 1}))
        .collect();
    let created = in_time(
        "a list",
        api.create(WIDGETS, &widget(json!({"list": items}))),
    )
    .await;
    created.expect(201);
    let patch = json!([{"op": "replace", "path": "/spec/list/7/v", "value": 2}]);
    let path = format!("{WIDGETS}/a");
    let body = patch.to_string();
    let patch = request(
        Method::PATCH,
        &path,
        Some("application/json-patch+json"),
        body,
    );
    in_time("a patch", api.send(patch)).await.expect(200);
    sandbox.shutdown().await;
}

#[tokio::test]
async fn size_of_defaults_is_limited() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let large = "x".repeat(1 << 20);
    let item = json!({
        "type": "object",
        "properties": {"text": {"type": "string", "default": large}},
    });
    install(&api, list_of(item)).await.expect(201);
    let object = widget(json!({"list": vec![json!({}); 100_000]}));
    let refused = in_time("a refusal", api.create(WIDGETS, &object)).await;
    assert_eq!(
        refused.expect(500).json()["message"],
        "etcdserver: request is too large"
    );
    let small = widget(json!({"list": [{}]}));
    api.create(WIDGETS, &small).await.expect(201);
    sandbox.shutdown().await;
}

#[tokio::test]
async fn patches_with_many_moves_are_bounded() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    install(&api, free).await.expect(201);
    let object = widget(json!({"a": {"list": vec![0; 400_000]}, "b": {"c": {}}, "f": [[]]}));
    api.create(WIDGETS, &object).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let send = async |operations: Vec<Value>| {
        let body = json!(operations).to_string();
        let patch = request(
            Method::PATCH,
            &path,
            Some("application/json-patch+json"),
            body,
        );
        in_time("a patch", api.send(patch)).await.code
    };
    let step = |from: &str, to: &str| json!({"op": "move", "from": from, "path": to});
    let level: Vec<Value> = (0..5000)
        .flat_map(|_| [step("/spec/a", "/spec/x"), step("/spec/x", "/spec/a")])
        .collect();
    assert_eq!(send(level).await, 200);
    // Between levels, so that the depth has to be measured repeatedly.
    let up_and_down: Vec<Value> = (0..5000)
        .flat_map(|_| {
            [
                step("/spec/a", "/spec/b/c/a"),
                step("/spec/b/c/a", "/spec/a"),
            ]
        })
        .collect();
    assert_eq!(send(up_and_down).await, 413);
    let front: Vec<Value> = (0..10_000)
        .map(|_| json!({"op": "add", "path": "/spec/a/list/0", "value": 1}))
        .collect();
    assert_eq!(send(front).await, 413);
    sandbox.shutdown().await;
}

#[tokio::test]
async fn large_patterns_are_rejected() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    for pattern in ["((a{100}){100}){100}", "\\pL{900}\\pN{900}"] {
        let schema = json!({
            "type": "object",
            "properties": {"text": {"type": "string", "pattern": pattern}},
        });
        let refused = in_time("a refusal", install(&api, schema)).await;
        let message = refused.expect(422).text();
        assert!(message.contains("error parsing regexp"), "{message:.300}");
    }
    let schema = json!({
        "type": "object",
        "properties": {"text": {"type": "string", "pattern": "^([a-z0-9]{1,253}\\.)?[a-z]{1,63}$"}},
    });
    install(&api, schema).await.expect(201);
    sandbox.shutdown().await;
}

#[tokio::test]
async fn many_unknown_fields_and_owners_are_handled() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    install(&api, json!({"type": "object", "properties": {}}))
        .await
        .expect(201);
    let fields: serde_json::Map<String, Value> = (0..100_000)
        .map(|number| (format!("f{number}"), json!(1)))
        .collect();
    let object = widget(Value::Object(fields));
    in_time("warnings", api.create(WIDGETS, &object))
        .await
        .expect(201);
    let owners: Vec<Value> = (0..10_000)
        .map(|number| {
            json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": number.to_string()})
        })
        .collect();
    let patch = json!({"metadata": {"ownerReferences": owners}});
    let path = format!("{WIDGETS}/a?dryRun=All");
    in_time("owners", api.merge(&path, &patch))
        .await
        .expect(200);
    sandbox.shutdown().await;
}
