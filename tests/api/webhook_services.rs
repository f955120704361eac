//! Webhooks behind Services: the address, the name of the certificate, and unusable Services.

use kopf_tests::{
    Api, ApiResponse, eventually,
    objects::{config_map, local_service},
    webhook::{Verdict, Webhook, configuration, configurations, rule},
};
use serde_json::{Value, json};

/// Configures a webhook of this kind for the creation of ConfigMaps.
async fn configure(api: &Api, kind: &str, webhook: &Webhook, client: Value) {
    let rules = [rule("", "v1", &["configmaps"], &["CREATE"])];
    let mut hook = webhook.hook(api, "served.example.com", "/", &rules);
    hook["clientConfig"] = client;
    let name = api.unique("served");
    let path = configurations(kind);
    let configuration = configuration(kind, &name, &[hook]);
    api.create(&path, &configuration).await.expect_code(201);
    api.delete_at_end(format!("{path}/{name}"));
}

async fn create(api: &Api) -> ApiResponse {
    let object = config_map("x", Value::Null);
    let path = api.ns_path("configmaps?dryRun=All");
    api.create(&path, &object).await
}

/// Existence of the Service of a webhook. Servers notice a new one with a delay.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existence {
    Absent,
    Present,
}

/// Waits for the reason why the webhook cannot be called: the text after the URL.
async fn failure(api: &Api, client: Value, service: Existence) -> String {
    let webhook = Webhook::start(|_| Verdict::allow()).await;
    configure(api, "Validating", &webhook, client).await;
    let (start, reason) = eventually("the webhook to be called", async || {
        let message = create(api).await.message().to_owned();
        let (start, reason) = message.split_once("?timeout=10s\": ")?;
        let is_final = service == Existence::Absent || !reason.ends_with("not found");
        is_final.then(|| (start.to_owned(), reason.to_owned()))
    })
    .await;
    let expected = "Internal error occurred: failed calling webhook \"served.example.com\": failed to \
                    call webhook: Post \"https://";
    assert!(start.starts_with(expected), "{start}");
    reason
}

fn reference(api: &Api, name: &str, port: u16) -> Value {
    json!({"service": {"namespace": api.namespace(), "name": name, "port": port, "path": "/x"}})
}

#[tokio::test]
async fn external_names_are_resolved_with_the_port_of_the_reference() {
    let api = Api::start().await;
    let name = format!("hooks.{}.svc", api.namespace());
    let webhook = Webhook::start_as(&name, |call| match &*call.path {
        "/root/validate" => Verdict::deny("denied behind a service"),
        _ => Verdict::patch(&json!([
            {"op": "add", "path": "/data", "value": {"mutated": "yes"}},
        ])),
    })
    .await;
    api.created(&api.ns_path("services"), &local_service("hooks"))
        .await;
    let client = |path: &str| webhook.client_config_by_service(&api, "hooks", path);
    configure(&api, "Mutating", &webhook, client("/root/mutate")).await;
    eventually("the mutating webhook to be called", async || {
        (create(&api).await.json["data"]["mutated"] == "yes").then_some(())
    })
    .await;
    configure(&api, "Validating", &webhook, client("/root/validate")).await;
    let denied = eventually("the validating webhook to be called", async || {
        let created = create(&api).await;
        (created.code == 400).then_some(created)
    });
    let message = denied.await.message().to_owned();
    assert!(message.ends_with("denied behind a service"), "{message}");
}

#[tokio::test]
async fn unknown_services_are_named() {
    let api = Api::start().await;
    let client = reference(&api, "nowhere", 443);
    let reason = failure(&api, client, Existence::Absent).await;
    assert_eq!(reason, "service \"nowhere\" not found");
}

/// Creates a Service and returns the reason why a webhook on this port of it cannot be called.
async fn failure_of(name: &str, spec: Value, port: u16) -> String {
    let api = Api::start().await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec,
    });
    api.created(&api.ns_path("services"), &service).await;
    failure(&api, reference(&api, name, port), Existence::Present).await
}

#[tokio::test]
async fn headless_services_have_no_address() {
    let spec = json!({"clusterIP": "None", "ports": [{"port": 443}]});
    let reason = failure_of("headless", spec, 443).await;
    assert_eq!(reason, "cannot route to service with ClusterIP \"None\"");
}

#[tokio::test]
async fn services_must_have_the_port() {
    let spec = json!({"ports": [{"port": 443}]});
    let reason = failure_of("other-port", spec, 8443).await;
    assert_eq!(
        reason,
        "no service port 8443 found for service \"other-port\""
    );
}

#[tokio::test]
async fn certificates_must_be_for_the_service() {
    let api = Api::start().await;
    let webhook = Webhook::start_as("localhost", |_| Verdict::allow()).await;
    api.created(&api.ns_path("services"), &local_service("misnamed"))
        .await;
    let client = webhook.client_config_by_service(&api, "misnamed", "/x");
    let reason = failure(&api, client, Existence::Present).await;
    let expected = format!(
        "tls: failed to verify certificate: x509: certificate is valid for localhost, not misnamed.{}.svc",
        api.namespace()
    );
    assert_eq!(reason, expected);
}
