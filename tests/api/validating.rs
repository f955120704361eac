//! Validating admission webhooks: their decisions in the responses to clients.

use kopf_tests::{
    Api,
    objects::config_map,
    webhook::{Verdict, Webhook, rule},
    with_query,
};
use serde_json::{Value, json};

fn maps() -> Value {
    rule("", "v1", &["configmaps"], &["*"])
}

/// Installs a webhook for ConfigMaps with a scripted decision by the name of the object.
async fn judge(api: &Api, verdict: impl Fn(&str) -> Verdict + Send + Sync + 'static) -> Webhook {
    let webhook =
        Webhook::start(move |call| verdict(call.request()["name"].as_str().unwrap_or_default()))
            .await;
    let hook = webhook.hook(api, "judge.example.com", "/judge", &[maps()]);
    webhook.validate_with(api, "judge", &[hook]).await;
    webhook
}

#[tokio::test]
async fn denial_is_passed_to_the_client() {
    let api = Api::start().await;
    let refuse = |status: Value| Verdict::deny("").with("status", status);
    let _webhook = judge(&api, move |name| match name {
        "plain" => Verdict::deny("not today"),
        "silent" => Verdict::Review(json!({"allowed": false})),
        "coded" => refuse(json!({"message": "busy", "code": 418, "reason": "Teapot"})),
        "reason" => refuse(json!({"reason": "Because"})),
        "odd" => refuse(json!({"message": "fine?", "code": 200})),
        _ => refuse(json!({
            "message": "bad",
            "code": 422,
            "reason": "Invalid",
            "details": {"causes": [{"field": "data.x", "message": "no", "reason": "Why"}]},
        })),
    })
    .await;
    let denied = "admission webhook \"judge.example.com\" denied the request";
    for (name, code, reason, message) in [
        ("plain", 400, "", format!("{denied}: not today")),
        ("silent", 400, "", format!("{denied} without explanation")),
        ("coded", 418, "Teapot", format!("{denied}: busy")),
        ("reason", 400, "Because", format!("{denied}: Because")),
        ("odd", 400, "", format!("{denied}: fine?")),
        ("detailed", 422, "Invalid", format!("{denied}: bad")),
    ] {
        let object = config_map(name, Value::Null);
        let refused = api.create(&api.ns_path("configmaps"), &object).await;
        let refused = refused.expect_failure(code, reason);
        assert_eq!(refused.message(), message);
        if name == "detailed" {
            assert_eq!(refused.causes(), [("Why", "data.x")]);
        }
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
async fn warnings_are_passed_to_the_client() {
    let api = Api::start().await;
    let warn = json!(["beware", "of the \"dog\""]);
    let _webhook = judge(&api, move |name| match name {
        "good" => Verdict::allow().with("warnings", warn.clone()),
        _ => Verdict::deny("no").with("warnings", warn.clone()),
    })
    .await;
    let maps = api.ns_path("configmaps");
    let good = api.created(&maps, &config_map("good", Value::Null)).await;
    assert_eq!(good.warnings(), ["beware", "of the \"dog\""]);
    let header = good.headers["warning"].to_str().unwrap();
    assert!(header.starts_with("299 - \""), "{header}");
    let bad = api
        .create(&maps, &config_map("bad", Value::Null))
        .await
        .expect_code(400);
    assert_eq!(bad.warnings(), ["beware", "of the \"dog\""]);
}

#[tokio::test]
async fn updates_and_deletions_can_be_denied() {
    let api = Api::start().await;
    let maps_path = api.ns_path("configmaps");
    let created = api
        .create(&maps_path, &config_map("a", json!({"x": "1"})))
        .await
        .ok();
    let _webhook = judge(&api, |_| Verdict::deny("it stays")).await;
    let path = api.ns_path("configmaps/a");
    for refused in [
        api.merge(&path, &json!({"data": {"x": "2"}})).await,
        api.delete(&path).await,
        api.delete(&with_query(&path, &[("dryRun", "All")])).await,
        api.delete(&maps_path).await,
    ] {
        let refused = refused.expect_code(400);
        assert!(refused.message().ends_with("denied the request: it stays"));
    }
    let still = api.found(&path).await;
    assert_eq!(still.resource_version(), created.resource_version());
}

#[tokio::test]
async fn one_denial_of_several_webhooks_suffices() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| match call.path.as_str() {
        "/refuse" => Verdict::deny("no"),
        _ => Verdict::allow(),
    })
    .await;
    let hook = |name: &str| {
        let full_name = format!("{name}.several.example.com");
        webhook.hook(&api, &full_name, &format!("/{name}"), &[maps()])
    };
    let hooks = [hook("allow"), hook("refuse"), hook("also")];
    webhook.validate_with(&api, "several", &hooks).await;
    let refused = api
        .create(&api.ns_path("configmaps"), &config_map("a", Value::Null))
        .await;
    let refused = refused.expect_code(400);
    assert_eq!(
        refused.message(),
        "admission webhook \"refuse.several.example.com\" denied the request: no"
    );
    api.get(&api.ns_path("configmaps/a"))
        .await
        .expect_failure(404, "NotFound");
}

#[tokio::test]
async fn validating_webhook_must_not_patch() {
    let api = Api::start().await;
    let _webhook = judge(&api, |_| {
        Verdict::patch(&json!([{"op": "add", "path": "/data", "value": {"x": "1"}}]))
    })
    .await;
    let failed = api
        .create(&api.ns_path("configmaps"), &config_map("a", Value::Null))
        .await;
    failed.expect_failure(500, "InternalError");
    api.get(&api.ns_path("configmaps/a"))
        .await
        .expect_failure(404, "NotFound");
}
