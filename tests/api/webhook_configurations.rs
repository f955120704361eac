//! Webhook configurations as objects: defaults and validation.

use kopf_tests::{
    Api,
    webhook::{Verdict, Webhook, configuration, configurations, rule},
    with_query,
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
async fn omitted_fields_are_defaulted() {
    let api = Api::start().await;
    let name = api.unique("defaults");
    for kind in ["Validating", "Mutating"] {
        let path = with_query(&configurations(kind), &[("dryRun", "All")]);
        let created = api
            .create(&path, &configuration(kind, &name, &[valid_hook()]))
            .await;
        let created = created.expect_code(201);
        let hook = created.at("/webhooks/0");
        assert_eq!(hook["failurePolicy"], "Fail");
        assert_eq!(hook["matchPolicy"], "Equivalent");
        assert_eq!(hook["namespaceSelector"], json!({}));
        assert_eq!(hook["objectSelector"], json!({}));
        assert_eq!(hook["timeoutSeconds"], 10);
        assert_eq!(hook["rules"][0]["scope"], "*");
        let again = if kind == "Mutating" {
            json!("Never")
        } else {
            Value::Null
        };
        assert_eq!(hook["reinvocationPolicy"], again);
        assert_eq!(created.generation(), 1);
    }
}

#[tokio::test]
async fn invalid_configurations_are_rejected() {
    let api = Api::start().await;
    let name = api.unique("broken");
    let url = |url: &str| json!({"url": url});
    let cases = [
        ("name", json!("short"), "FieldValueInvalid", "name"),
        (
            "sideEffects",
            Value::Null,
            "FieldValueRequired",
            "sideEffects",
        ),
        (
            "sideEffects",
            json!("Some"),
            "FieldValueNotSupported",
            "sideEffects",
        ),
        (
            "sideEffects",
            json!("Unknown"),
            "FieldValueNotSupported",
            "sideEffects",
        ),
        (
            "admissionReviewVersions",
            Value::Null,
            "FieldValueRequired",
            "admissionReviewVersions",
        ),
        (
            "admissionReviewVersions",
            json!(["v9"]),
            "FieldValueInvalid",
            "admissionReviewVersions",
        ),
        (
            "failurePolicy",
            json!("Panic"),
            "FieldValueNotSupported",
            "failurePolicy",
        ),
        (
            "matchPolicy",
            json!("Vague"),
            "FieldValueNotSupported",
            "matchPolicy",
        ),
        (
            "timeoutSeconds",
            json!(0),
            "FieldValueInvalid",
            "timeoutSeconds",
        ),
        (
            "timeoutSeconds",
            json!(31),
            "FieldValueInvalid",
            "timeoutSeconds",
        ),
        (
            "clientConfig",
            json!({}),
            "FieldValueRequired",
            "clientConfig",
        ),
        (
            "clientConfig",
            url("http://127.0.0.1/"),
            "FieldValueInvalid",
            "clientConfig.url",
        ),
        (
            "clientConfig",
            url("https://127.0.0.1/?a=b"),
            "FieldValueInvalid",
            "clientConfig.url",
        ),
        (
            "clientConfig",
            json!({"url": "https://127.0.0.1/", "service": {"name": "a", "namespace": "b"}}),
            "FieldValueRequired",
            "clientConfig",
        ),
        (
            "rules",
            json!([rule("", "v1", &["pods"], &["READ"])]),
            "FieldValueNotSupported",
            "rules[0].operations[0]",
        ),
        (
            "rules",
            json!([rule("", "v1", &["pods"], &["*", "CREATE"])]),
            "FieldValueInvalid",
            "rules[0].operations",
        ),
        (
            "rules",
            json!([rule("", "v1", &[], &["*"])]),
            "FieldValueRequired",
            "rules[0].resources",
        ),
        (
            "rules",
            json!([rule("", "v1", &["*", "pods"], &["*"])]),
            "FieldValueInvalid",
            "rules[0].resources",
        ),
    ];
    for kind in ["Validating", "Mutating"] {
        for (field, value, reason, cause) in &cases {
            let mut hook = valid_hook();
            hook[*field] = value.clone();
            let broken = configuration(kind, &name, &[hook]);
            let refused = api.create(&configurations(kind), &broken).await;
            let refused = refused.expect_failure(422, "Invalid");
            let cause = format!("webhooks[0].{cause}");
            assert!(
                refused.causes().contains(&(*reason, cause.as_str())),
                "{field}={value}: {}",
                refused.text()
            );
        }
    }
    let twice = configuration("Validating", &name, &[valid_hook(), valid_hook()]);
    let refused = api.create(&configurations("Validating"), &twice).await;
    let refused = refused.expect_failure(422, "Invalid");
    assert_eq!(
        refused.causes(),
        [("FieldValueDuplicate", "webhooks[1].name")]
    );
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
