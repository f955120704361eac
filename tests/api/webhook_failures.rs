//! Failure policies: invalid responses of webhooks, and unreachable webhooks.

use http::StatusCode;
use kopf_tests::{
    Api, ApiResponse,
    objects::config_map,
    webhook::{Verdict, Webhook, rule, unreachable_client_config},
};
use serde_json::{Value, json};

/// Returns an invalid response by the name of the object.
fn garble(name: &str) -> Verdict {
    let review = |response: Value| {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        });
        Verdict::Raw(StatusCode::OK, review.to_string())
    };
    match name {
        "text" => Verdict::Raw(StatusCode::OK, "garbage".to_owned()),
        "error" => Verdict::Raw(StatusCode::INTERNAL_SERVER_ERROR, "boom".to_owned()),
        "missing" => Verdict::Raw(StatusCode::NOT_FOUND, "{}".to_owned()),
        "empty" => Verdict::Raw(StatusCode::OK, String::new()),
        "object" => Verdict::Raw(StatusCode::OK, "{}".to_owned()),
        "absent" => review(Value::Null),
        "uid" => review(json!({"uid": "another", "allowed": true})),
        "version" => Verdict::Raw(
            StatusCode::OK,
            json!({
                "apiVersion": "admission.k8s.io/v9",
                "kind": "AdmissionReview",
                "response": {"allowed": true},
            })
            .to_string(),
        ),
        _ => Verdict::allow(),
    }
}

const GARBLED: [&str; 8] = [
    "text", "error", "missing", "empty", "object", "absent", "uid", "version",
];

async fn create(api: &Api, name: &str) -> ApiResponse {
    api.create(&api.ns_path("configmaps"), &config_map(name, Value::Null))
        .await
}

/// Installs a webhook for ConfigMaps, after a change of its configuration.
async fn install(api: &Api, webhook: &Webhook, kind: &str, change: impl Fn(&mut Value)) {
    let rules = [rule("", "v1", &["configmaps"], &["CREATE"])];
    let mut hook = webhook.hook(api, "frail.example.com", "/frail", &rules);
    change(&mut hook);
    if kind == "Mutating" {
        webhook.mutate_with(api, "frail", &[hook]).await;
    } else {
        webhook.validate_with(api, "frail", &[hook]).await;
    }
}

#[tokio::test]
async fn invalid_response_fails_the_request() {
    let api = Api::start().await;
    let webhook =
        Webhook::start(|call| garble(call.request()["name"].as_str().unwrap_or_default())).await;
    install(&api, &webhook, "Validating", |_| {}).await;
    for name in GARBLED {
        let failed = create(&api, name)
            .await
            .expect_failure(500, "InternalError");
        let start = "Internal error occurred: failed calling webhook \"frail.example.com\": ";
        assert!(
            failed.message().starts_with(start),
            "{name}: {}",
            failed.message()
        );
    }
    create(&api, "sane").await.expect_code(201);
    let list = api.get(&api.ns_path("configmaps")).await.ok();
    assert_eq!(list.item_names(), ["sane"]);
}

#[tokio::test]
async fn invalid_response_can_be_ignored() {
    let api = Api::start().await;
    let webhook =
        Webhook::start(|call| garble(call.request()["name"].as_str().unwrap_or_default())).await;
    install(&api, &webhook, "Mutating", |hook| {
        hook["failurePolicy"] = json!("Ignore");
    })
    .await;
    for name in GARBLED {
        create(&api, name).await.expect_code(201);
    }
}

#[tokio::test]
async fn denial_is_not_ignored() {
    let api = Api::start().await;
    let webhook = Webhook::start(|_| Verdict::deny("no")).await;
    install(&api, &webhook, "Validating", |hook| {
        hook["failurePolicy"] = json!("Ignore");
    })
    .await;
    create(&api, "a").await.expect_code(400);
}

#[tokio::test]
async fn unreachable_webhook_fails_the_request() {
    let api = Api::start().await;
    let nowhere = unreachable_client_config().await;
    let webhook = Webhook::start(|_| Verdict::allow()).await;
    install(&api, &webhook, "Validating", |hook| {
        hook["clientConfig"] = nowhere.clone();
    })
    .await;
    let failed = create(&api, "a").await.expect_failure(500, "InternalError");
    let start = "Internal error occurred: failed calling webhook \"frail.example.com\": \
                 failed to call webhook: ";
    assert!(failed.message().starts_with(start), "{}", failed.message());
}

#[tokio::test]
async fn unreachable_webhook_can_be_ignored() {
    let api = Api::start().await;
    let nowhere = unreachable_client_config().await;
    let webhook = Webhook::start(|_| Verdict::allow()).await;
    install(&api, &webhook, "Mutating", |hook| {
        hook["clientConfig"] = nowhere.clone();
        hook["failurePolicy"] = json!("Ignore");
    })
    .await;
    create(&api, "a").await.expect_code(201);
}

#[tokio::test]
async fn webhook_of_an_unknown_authority_is_rejected() {
    let api = Api::start().await;
    let webhook = Webhook::start(|_| Verdict::allow()).await;
    let other = Webhook::start(|_| Verdict::allow()).await;
    let foreign = other.client_config("/")["caBundle"].clone();
    install(&api, &webhook, "Validating", |hook| {
        hook["clientConfig"]["caBundle"] = foreign.clone();
    })
    .await;
    create(&api, "a").await.expect_failure(500, "InternalError");
    assert!(webhook.calls().is_empty(), "it received no request");
}

#[tokio::test]
async fn stalled_webhook_times_out() {
    let api = Api::start().await;
    let webhook = Webhook::start(|_| Verdict::Silence).await;
    install(&api, &webhook, "Validating", |hook| {
        hook["timeoutSeconds"] = json!(1);
    })
    .await;
    create(&api, "a").await.expect_failure(500, "InternalError");
    assert_eq!(webhook.calls()[0].query, "timeout=1s");
    api.get(&api.ns_path("configmaps/a"))
        .await
        .expect_failure(404, "NotFound");
}
