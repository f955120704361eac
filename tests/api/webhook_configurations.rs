//! The effect of webhook configurations on themselves, and after their deletion.

use kopf_tests::{
    Api,
    webhook::{Verdict, Webhook, configuration, configurations, rule},
};
use serde_json::{Value, json};

fn valid_hook() -> Value {
    json!({
        "name": "some.webhook.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule("nosuch.example.com", "v1", &["things"], &["CREATE"])],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}

#[tokio::test]
async fn webhook_configurations_are_exempt_from_webhooks() {
    let api = Api::start().await;
    let webhook = Webhook::start(|_| Verdict::deny("never")).await;
    let rules = [rule("admissionregistration.k8s.io", "*", &["*"], &["*"])];
    let mut hook = webhook.hook(&api, "greedy.example.com", "/greedy", &rules);
    // If this rule has an effect on a server, it must not affect the other tests.
    hook["objectSelector"] = json!({"matchLabels": {"test": api.namespace()}});
    webhook.validate_with(&api, "greedy", &[hook]).await;
    let name = api.unique("other");
    let mut other = configuration("Validating", &name, &[valid_hook()]);
    other["metadata"]["labels"] = json!({"test": api.namespace()});
    let path = configurations("Validating");
    api.created(&path, &other).await;
    api.deleted(&format!("{path}/{name}")).await;
    assert!(webhook.calls().is_empty());
}

#[tokio::test]
async fn deleted_configuration_has_no_effect() {
    let api = Api::start().await;
    let webhook = Webhook::start(|_| Verdict::deny("never")).await;
    let rules = [rule("", "v1", &["configmaps"], &["CREATE"])];
    let hook = webhook.hook(&api, "brief.example.com", "/brief", &rules);
    webhook.validate_with(&api, "brief", &[hook]).await;
    let maps = api.ns_path("configmaps");
    let object = kopf_tests::objects::config_map("a", Value::Null);
    api.create(&maps, &object).await.expect_code(400);
    let path = format!("{}/{}", configurations("Validating"), api.unique("brief"));
    api.deleted(&path).await;
    kopf_tests::eventually("the configuration to be forgotten", async || {
        (api.create(&maps, &object).await.code == 201).then_some(())
    })
    .await;
}
