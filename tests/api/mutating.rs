//! Mutating admission webhooks: patches, order, and later steps.

use kopf_tests::{
    Api,
    objects::config_map,
    webhook::{Verdict, Webhook, rule},
};
use serde_json::{Value, json};

fn maps() -> Value {
    rule("", "v1", &["configmaps"], &["CREATE", "UPDATE"])
}

/// Adds `data[key]` with the names of the existing keys.
fn stamp(key: &str, request: &Value) -> Verdict {
    let seen: Vec<_> = request["object"]["data"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    Verdict::patch(&json!([
        {"op": "add", "path": format!("/data/{key}"), "value": seen.join(" ")},
    ]))
}

#[tokio::test]
async fn patches_are_applied() {
    let api = Api::start().await;
    let webhook = Webhook::start(|_| {
        Verdict::patch(&json!([
            {"op": "test", "path": "/data/old", "value": "here"},
            {"op": "add", "path": "/metadata/labels", "value": {"by": "webhook"}},
            {"op": "replace", "path": "/data/old", "value": "changed"},
            {"op": "add", "path": "/data/new", "value": "there"},
            {"op": "remove", "path": "/data/bad"},
        ]))
    })
    .await;
    let hook = webhook.hook(&api, "patch.example.com", "/patch", &[maps()]);
    webhook.mutate_with(&api, "patch", &[hook]).await;
    let object = config_map("a", json!({"old": "here", "bad": "x"}));
    let created = api.created(&api.ns_path("configmaps"), &object).await;
    assert_eq!(
        created.json["data"],
        json!({"old": "changed", "new": "there"})
    );
    assert_eq!(created.at("/metadata/labels"), &json!({"by": "webhook"}));
    let stored = api.get(&api.ns_path("configmaps/a")).await.ok();
    assert_eq!(stored.json["data"], created.json["data"]);
}

#[tokio::test]
async fn webhooks_mutate_in_the_order_of_names_before_validation() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| match call.path.as_str() {
        "/validate" => Verdict::allow(),
        path => stamp(path.trim_start_matches('/'), call.request()),
    })
    .await;
    let hook = |name: &str| {
        let full_name = format!("{name}.order.example.com");
        webhook.hook(&api, &full_name, &format!("/{name}"), &[maps()])
    };
    // Configurations are ordered by name; their hooks by position.
    webhook
        .validate_with(&api, "a-judge", &[hook("validate")])
        .await;
    webhook.mutate_with(&api, "c-second", &[hook("last")]).await;
    webhook
        .mutate_with(&api, "b-first", &[hook("zero"), hook("one")])
        .await;
    let object = config_map("a", json!({"own": ""}));
    let created = api.created(&api.ns_path("configmaps"), &object).await;
    assert_eq!(webhook.paths(), ["/zero", "/one", "/last", "/validate"]);
    let data = json!({
        "own": "",
        "zero": "own",
        "one": "own zero",
        "last": "one own zero",
    });
    assert_eq!(created.json["data"], data);
    assert_eq!(
        webhook.calls()[3].request()["object"]["data"],
        data,
        "the judge sees it all"
    );
}

#[tokio::test]
async fn updates_and_custom_resources_are_mutated_as_well() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    api.create(&crd.path(), &crd.object("a", json!({"x": 1})))
        .await
        .ok();
    let webhook = Webhook::start(|_| {
        Verdict::patch(&json!([{"op": "add", "path": "/spec/touched", "value": true}]))
    })
    .await;
    let rules = [rule(crd.group(), "v1", &["widgets"], &["UPDATE"])];
    let hook = webhook.hook(&api, "touch.example.com", "/touch", &rules);
    webhook.mutate_with(&api, "touch", &[hook]).await;
    let patched = crd.merged("a", &json!({"spec": {"x": 2}})).await;
    assert_eq!(patched.json["spec"], json!({"x": 2, "touched": true}));
    assert_eq!(patched.generation(), 2);
}

#[tokio::test]
async fn mutated_objects_are_validated_against_the_schema() {
    let api = Api::start().await;
    let schema = json!({
        "type": "object", "properties": {"size": {"type": "integer", "maximum": 5}},
    });
    let crd = api.crd().spec_schema(schema).create().await;
    let webhook = Webhook::start(|call| {
        let key = call.request()["name"].as_str().unwrap();
        Verdict::patch(&json!([{"op": "add", "path": format!("/spec/{key}"), "value": 50}]))
    })
    .await;
    let rules = [rule(crd.group(), "v1", &["widgets"], &["CREATE"])];
    let hook = webhook.hook(&api, "grow.example.com", "/grow", &rules);
    webhook.mutate_with(&api, "grow", &[hook]).await;
    let refused = api
        .create(&crd.path(), &crd.object("size", json!({})))
        .await;
    let refused = refused.expect_failure(422, "Invalid");
    assert_eq!(refused.causes(), [("FieldValueInvalid", "spec.size")]);
    api.get(&crd.path_of("size"))
        .await
        .expect_failure(404, "NotFound");
    let pruned = api
        .create(&crd.path(), &crd.object("unknown", json!({})))
        .await;
    assert_eq!(pruned.expect_code(201).json["spec"], json!({}));
    // Objects are validated after the webhooks, which can fix them.
    webhook.forget();
    let bad = api
        .create(&crd.path(), &crd.object("other", json!({"size": 100})))
        .await;
    bad.expect_failure(422, "Invalid");
    assert_eq!(webhook.calls().len(), 1);
}

#[tokio::test]
async fn mutated_built_in_objects_are_validated() {
    let api = Api::start().await;
    let webhook = Webhook::start(|_| {
        Verdict::patch(&json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "!!"}}]))
    })
    .await;
    let hook = webhook.hook(&api, "label.example.com", "/label", &[maps()]);
    webhook.mutate_with(&api, "label", &[hook]).await;
    let refused = api
        .create(&api.ns_path("configmaps"), &config_map("a", Value::Null))
        .await;
    let refused = refused.expect_failure(422, "Invalid");
    assert!(
        refused
            .causes()
            .contains(&("FieldValueInvalid", "metadata.labels"))
    );
}

#[tokio::test]
async fn inapplicable_patch_fails_the_request() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| match call.request()["name"].as_str().unwrap() {
        "missing" => Verdict::patch(&json!([{"op": "replace", "path": "/no/such", "value": 1}])),
        "type" => Verdict::patch(&json!([{"op": "add", "path": "/data/x", "value": 1}])),
        "untyped" => Verdict::allow().with("patch", json!("W10=")),
        _ => Verdict::allow()
            .with("patch", json!("%%%"))
            .with("patchType", json!("JSONPatch")),
    })
    .await;
    let hook = webhook.hook(&api, "broken.example.com", "/broken", &[maps()]);
    webhook.mutate_with(&api, "broken", &[hook]).await;
    for name in ["missing", "type", "untyped", "garbage"] {
        let object = config_map(name, json!({"a": "b"}));
        let failed = api.create(&api.ns_path("configmaps"), &object).await;
        failed.expect_failure(500, "InternalError");
    }
    assert!(
        api.get(&api.ns_path("configmaps"))
            .await
            .ok()
            .items()
            .is_empty()
    );
}

#[tokio::test]
async fn mutating_webhook_can_deny() {
    let api = Api::start().await;
    let webhook = Webhook::start(|_| Verdict::deny("not like this")).await;
    let hook = webhook.hook(&api, "refuse.example.com", "/refuse", &[maps()]);
    webhook.mutate_with(&api, "refuse", &[hook]).await;
    let refused = api
        .create(&api.ns_path("configmaps"), &config_map("a", Value::Null))
        .await;
    let refused = refused.expect_code(400);
    assert_eq!(
        refused.message(),
        "admission webhook \"refuse.example.com\" denied the request: not like this"
    );
}

#[tokio::test]
async fn webhook_is_reinvoked_after_later_changes() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| {
        // Webhooks must be idempotent, because they can be called twice.
        let key = call.path.trim_start_matches('/');
        let path = format!("/data/{key}");
        Verdict::patch(&json!([{"op": "add", "path": path, "value": "x"}]))
    })
    .await;
    let hook = |name: &str, policy: &str| {
        let full_name = format!("{name}.again.example.com");
        let mut hook = webhook.hook(&api, &full_name, &format!("/{name}"), &[maps()]);
        hook["reinvocationPolicy"] = json!(policy);
        hook
    };
    let hooks = [
        hook("first", "IfNeeded"),
        hook("never", "Never"),
        hook("last", "IfNeeded"),
    ];
    webhook.mutate_with(&api, "again", &hooks).await;
    let object = config_map("a", json!({"own": ""}));
    let created = api.created(&api.ns_path("configmaps"), &object).await;
    assert_eq!(webhook.paths(), ["/first", "/never", "/last", "/first"]);
    assert_eq!(
        created.json["data"],
        json!({"own": "", "first": "x", "never": "x", "last": "x"})
    );
    // Nothing changes now, so that no webhook is called twice.
    webhook.forget();
    api.merge(&api.ns_path("configmaps/a"), &json!({"data": {"own": "y"}}))
        .await
        .ok();
    assert_eq!(webhook.paths(), ["/first", "/never", "/last"]);
}
