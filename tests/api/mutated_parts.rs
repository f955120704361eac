//! Parts of an object that a mutating webhook can change, and the object of a creation in its
//! review.

use kopf_tests::{
    Api, objects,
    webhook::{Verdict, Webhook, rule},
};
use serde_json::json;

#[tokio::test]
async fn status_added_at_creation_is_dropped() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let webhook = Webhook::start(|_| {
        Verdict::patch(&json!([
            {"op": "add", "path": "/status", "value": {"phase": "Forged"}},
            {"op": "add", "path": "/spec/touched", "value": true},
        ]))
    })
    .await;
    let rules = [rule(crd.group(), "v1", &["widgets"], &["CREATE"])];
    let hook = webhook.hook(&api, "status.example.com", "/status", &rules);
    webhook.mutate_with(&api, "status", &[hook]).await;
    let made = crd.created("a", json!({"x": 1})).await;
    assert_eq!(made.json["spec"], json!({"x": 1, "touched": true}));
    assert!(made.json["status"].is_null(), "{}", made.text());
    let stored = crd.found("a").await;
    assert!(stored.json["status"].is_null(), "{}", stored.text());
}

#[tokio::test]
async fn webhook_of_the_status_cannot_change_the_spec() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    crd.created("a", json!({"x": 1})).await;
    let webhook = Webhook::start(|_| {
        Verdict::patch(&json!([
            {"op": "replace", "path": "/spec", "value": {"x": 2}},
            {"op": "add", "path": "/status/touched", "value": true},
        ]))
    })
    .await;
    let rules = [rule(crd.group(), "v1", &["widgets/status"], &["UPDATE"])];
    let hook = webhook.hook(&api, "spec.example.com", "/spec", &rules);
    webhook.mutate_with(&api, "spec", &[hook]).await;
    let patch = json!({"status": {"phase": "Ready"}});
    let patched = crd.merged("a/status", &patch).await;
    assert_eq!(webhook.paths(), ["/spec"]);
    assert_eq!(
        patched.json["status"],
        json!({"phase": "Ready", "touched": true})
    );
    assert_eq!(patched.json["spec"], json!({"x": 1}));
    assert_eq!(patched.generation(), 1);
    let stored = crd.found("a").await;
    assert_eq!(stored.json, patched.json);
}

#[tokio::test]
async fn change_of_the_spec_by_a_webhook_increments_the_generation() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let all = api.group_path("apps/v1", "deployments");
    crd.created("a", json!({"replicas": 1})).await;
    api.created(&all, &objects::deployment("a")).await;
    let webhook = Webhook::start(|_| {
        Verdict::patch(&json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]))
    })
    .await;
    let rules = [
        rule(crd.group(), "v1", &["widgets"], &["UPDATE"]),
        rule("apps", "v1", &["deployments"], &["UPDATE"]),
    ];
    let hook = webhook.hook(&api, "spec.example.com", "/spec", &rules);
    webhook.mutate_with(&api, "spec", &[hook]).await;
    for path in [crd.path_of("a"), format!("{all}/a")] {
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        let patched = api.merged(&path, &label).await;
        assert_eq!(patched.at("/spec/replicas"), 5, "{path}");
        assert_eq!(patched.generation(), 2, "{path}");
        // A change that the webhook reverts has no effect.
        let undone = api.merged(&path, &json!({"spec": {"replicas": 7}})).await;
        assert_eq!(undone.at("/spec/replicas"), 5, "{path}");
        assert_eq!(undone.generation(), 2, "{path}");
        assert_eq!(undone.resource_version(), patched.resource_version());
    }
}

#[tokio::test]
async fn mutating_webhooks_get_no_generated_name() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let webhook = Webhook::start(|_| Verdict::allow()).await;
    let rules = [
        rule(crd.group(), "v1", &["widgets"], &["CREATE"]),
        rule("", "v1", &["configmaps"], &["CREATE"]),
    ];
    let hook = webhook.hook(&api, "mutate.example.com", "/mutate", &rules);
    webhook.mutate_with(&api, "mutate", &[hook]).await;
    let hook = webhook.hook(&api, "judge.example.com", "/judge", &rules);
    webhook.validate_with(&api, "judge", &[hook]).await;
    for (path, mut object) in [
        (crd.path(), crd.object("", json!({}))),
        (
            api.ns_path("configmaps"),
            objects::config_map("", json!({})),
        ),
    ] {
        webhook.forget();
        object["metadata"] = json!({"generateName": "made-"});
        let made = api.created(&path, &object).await;
        assert_eq!(webhook.paths(), ["/mutate", "/judge"]);
        let calls = webhook.calls();
        let (early, late) = (calls[0].request(), calls[1].request());
        assert_eq!(early["object"]["metadata"]["generateName"], "made-");
        assert!(early["name"].is_null(), "{early}");
        for field in ["name", "uid", "creationTimestamp", "generation"] {
            assert!(early["object"]["metadata"][field].is_null(), "{early}");
        }
        assert_eq!(late["name"], made.name());
        for field in ["name", "uid", "creationTimestamp", "generation"] {
            let seen = &late["object"]["metadata"][field];
            assert_eq!(seen, &made.json["metadata"][field], "{field}");
        }
    }
}
