//! Garbage collection beside webhooks.

use kopf_tests::{Api, eventually, objects::config_map, webhook::Webhook, webhook::rule};
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[tokio::test]
async fn webhooks_are_not_called_for_the_deletion_of_a_crd() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let webhook = Webhook::start(|_| kopf_tests::webhook::Verdict::deny("no")).await;
    let rules = [rule(&api.group(), "v1", &["widgets"], &["DELETE"])];
    let hook = webhook.hook(&api, "deny.example.com", "/deny", &rules);
    webhook.validate_with(&api, "deny", &[hook]).await;
    crd.created("held", json!({})).await;
    api.delete(&crd.path_of("held")).await.expect_code(400);
    api.deleted(&crd.definition_path()).await;
    eventually("the CRD to be deleted", async || {
        (api.get(&crd.definition_path()).await.code == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn stalled_webhook_does_not_block_the_collector() {
    let api = Api::start().await;
    let elsewhere = api.unique("elsewhere");
    api.create_namespace(&elsewhere).await;
    let elsewhere = format!("/api/v1/namespaces/{elsewhere}/configmaps");

    // Connections are accepted by the operating system and never served.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let webhook = Webhook::start(|_| kopf_tests::webhook::Verdict::allow()).await;
    let rules = [rule("", "v1", &["configmaps"], &["DELETE"])];
    let mut hook = webhook.hook(&api, "silent.example.com", "/silent", &rules);
    hook["clientConfig"]["url"] = json!(format!("https://{}/", silent.local_addr().unwrap()));
    hook["objectSelector"] = json!({"matchLabels": {"held": "yes"}});
    hook["failurePolicy"] = json!("Fail");
    hook["timeoutSeconds"] = json!(30);
    webhook.validate_with(&api, "silent", &[hook]).await;

    let absent = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "absent",
        "uid": "66666666-2222-3333-4444-555555555555",
    });
    let mut held = config_map("held", Value::Null);
    held["metadata"]["ownerReferences"] = json!([absent]);
    held["metadata"]["labels"] = json!({"held": "yes"});
    api.created(&api.ns_path("configmaps"), &held).await;
    // The collector calls the webhook, and continues before that times out.
    let (connection, _) = silent.accept().await.unwrap();
    let mut free = config_map("free", Value::Null);
    free["metadata"]["ownerReferences"] = json!([absent]);
    api.created(&elsewhere, &free).await;
    eventually("the object without finalizers to be deleted", async || {
        (api.get(&format!("{elsewhere}/free")).await.code == 404).then_some(())
    })
    .await;
    let mut silent_still = [0_u8; 1];
    // The received data is the beginning of a handshake.
    while connection.try_read(&mut silent_still).is_ok_and(|n| n > 0) {}
    let end = connection.try_read(&mut silent_still);
    assert!(
        end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock),
        "the collector has waited for the webhook"
    );
    api.found(&api.ns_path("configmaps/held")).await;
}
