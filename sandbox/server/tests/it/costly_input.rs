//! Requests whose processing would take seconds are rejected. Each has at most a megabyte.

use std::fmt::Write as _;

use http::Method;
use kopf_sandbox::Sandbox;
use serde_json::{Value, json};

use crate::support::{Api, CONFIG_MAPS, DEFINITIONS, definition, request};

const THINGS: &str = "/apis/test.dev/v1/namespaces/default/things";

/// Returns a CRD with properties of the spec.
fn with_properties(properties: &Value) -> Value {
    let mut crd = definition("things", "Thing");
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({
        "type": "object",
        "properties": { "spec": { "type": "object", "properties": properties } },
    });
    crd
}

fn thing(text: &str) -> Value {
    json!({
        "apiVersion": "test.dev/v1", "kind": "Thing", "metadata": { "name": "a" },
        "spec": { "text": text },
    })
}

fn started() -> (Sandbox, Api) {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    (sandbox, api)
}

#[tokio::test]
async fn aliases_that_expand_to_much_more_than_the_body_are_rejected() {
    let (_sandbox, api) = started();
    let mut many =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx0: &x0 [a, b]\n".to_owned();
    for level in 1..18 {
        writeln!(many, "x{level}: &x{level} [*x{0}, *x{0}]", level - 1).unwrap();
    }
    let long = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\nx: &x {}\ny: [{}]\n",
        "a".repeat(900_000),
        ["*x"; 50].join(", ")
    );
    for body in [many, long] {
        let create = request(
            Method::POST,
            CONFIG_MAPS,
            Some("application/yaml"),
            body.clone(),
        );
        let error = api.send(create).await.expect(400).text();
        assert!(error.contains("couldn't be read"), "{error}");
        let path = format!("{CONFIG_MAPS}/a?fieldManager=m");
        let apply = request(
            Method::PATCH,
            &path,
            Some("application/apply-patch+yaml"),
            body,
        );
        api.send(apply).await.expect(400);
    }
    let few = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: &a x, b: *a}\n";
    let create = request(Method::POST, CONFIG_MAPS, Some("application/yaml"), few);
    assert_eq!(api.send(create).await.expect(201).json()["data"]["b"], "x");
}

#[tokio::test]
async fn crds_with_very_large_patterns_are_rejected() {
    let (_sandbox, api) = started();
    let mut many = json!({});
    for number in 0..15_000 {
        many[format!("p{number}")] =
            json!({ "type": "string", "pattern": format!("\\p{{L}}{{9}}{number}") });
    }
    let one = |pattern: &str| json!({ "text": { "type": "string", "pattern": pattern } });
    let classes = r"\p{L}".repeat(150_000);
    for (properties, message) in [
        (many, "the patterns of the schemas are too large"),
        (one(r"\p{L}{999}"), "expression too large"),
        (one("((a{100}){100}){100}"), "expression too large"),
        (one(&classes), "expression too large"),
    ] {
        let error = api.create(DEFINITIONS, &with_properties(&properties)).await;
        let error = error.expect(422).json()["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            error.contains(message),
            "{}",
            error.chars().take(300).collect::<String>()
        );
    }
    // A real server accepts it, and it is not costly.
    let unicode = with_properties(&one(r"^\p{L}{1,63}$"));
    api.create(DEFINITIONS, &unicode).await.expect(201);
    api.create(THINGS, &thing("Käse")).await.expect(201);
}

#[tokio::test]
async fn long_values_of_heavy_patterns_are_rejected() {
    let (_sandbox, api) = started();
    let pattern = "(a|b)*a(a|b){501}$";
    let crd = with_properties(&json!({ "text": { "type": "string", "pattern": pattern } }));
    api.create(DEFINITIONS, &crd).await.expect(201);
    let text = "ab".repeat(500_000);
    let error = api.create(THINGS, &thing(&text)).await.expect(422).text();
    assert!(
        error.contains("too long for their patterns"),
        "{}",
        error.len()
    );
    api.create(THINGS, &thing(&"ab".repeat(500)))
        .await
        .expect(201);
}

#[tokio::test]
async fn searches_of_rules_are_charged_by_their_patterns() {
    let (_sandbox, api) = started();
    let rule = "self.matches('(a|b)*a(a|b){501}$')";
    let validations = json!([{ "rule": rule }]);
    let crd = with_properties(&json!({ "text": {
        "type": "string", "x-kubernetes-validations": validations,
    } }));
    api.create(DEFINITIONS, &crd).await.expect(201);
    let text = "ab".repeat(500_000);
    let error = api.create(THINGS, &thing(&text)).await.expect(422).text();
    assert!(
        error.contains("cost"),
        "{}",
        error.chars().take(2000).collect::<String>()
    );
    api.create(THINGS, &thing(&"ab".repeat(500)))
        .await
        .expect(201);
    let heavy = with_properties(&json!({ "text": {
        "type": "string",
        "x-kubernetes-validations": [{ "rule": r"self.matches('\\p{L}{999}')" }],
    } }));
    let mut heavy = heavy;
    heavy["metadata"]["name"] = json!("others.test.dev");
    heavy["spec"]["names"] = json!({ "plural": "others", "singular": "other", "kind": "Other" });
    api.create(DEFINITIONS, &heavy).await.expect(422);
}
