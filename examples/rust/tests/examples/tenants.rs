use kopf_testing::Manifest;
use serde_json::{Value, json};

use crate::stage::{Stage, only};

async fn start() -> Stage {
    let crds = Manifest::from(include_str!("../../tenant-onboarding/crds.yaml"));
    Stage::start_with(crds.objects()).await
}

fn tenant(stage: &Stage) -> String {
    stage.api.group_path("kopf.dev/v1", "tenants/acme")
}

fn nats(stage: &Stage) -> String {
    stage.api.group_path("kopf.dev/v1", "nats/acme")
}

async fn create(stage: &Stage) -> Value {
    let object = only(include_str!("../../tenant-onboarding/tenant.yaml"));
    let path = stage.api.group_path("kopf.dev/v1", "tenants");
    stage.api.created(&path, &object).await.json
}

/// Returns the offset of a message in the log.
fn offset(log: &str, message: &str) -> usize {
    log.find(message)
        .unwrap_or_else(|| panic!("{message:?} is not logged:\n{log}"))
}

#[tokio::test]
async fn two_operators_do_three_steps_in_order() {
    let stage = start().await;
    let mut main = stage.run("tenant-onboarding");
    let created = create(&stage).await;
    main.await_log("Creation is processed: 2 succeeded; 0 failed.")
        .await;
    let services = stage.api.ns_path("services/nats-acme");
    let configs = stage.api.ns_path("configmaps/acme-blobs");
    let storage = stage.api.found(&configs).await.json;
    let created_nats = stage.api.found(&nats(&stage)).await.json;
    for child in [&storage, &created_nats] {
        let owner = &child["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], created["metadata"]["uid"], "{child}");
    }
    assert_eq!(created_nats["spec"], json!({"storage": "acme-blobs"}));
    assert!(created_nats["status"].is_null(), "{created_nats}");
    let waiting = stage.api.found(&tenant(&stage)).await.json;
    assert!(waiting["status"]["phase"].is_null(), "{waiting}");

    let other = stage.run("tenant-nats");
    let url = format!("nats://nats-acme.{}.svc:4222", stage.api.namespace());
    let ready = stage
        .until(&tenant(&stage), "it is ready", |tenant| {
            tenant["status"]["phase"] == "ready"
        })
        .await;
    assert_eq!(ready["status"]["nats"], json!(url));
    assert_eq!(
        ready["status"]["create_blob_storage"],
        json!({"name": "acme-blobs"})
    );
    stage.api.found(&services).await;
    let provided = stage.api.found(&nats(&stage)).await.json;
    assert_eq!(provided["status"]["url"], json!(url));
    assert_eq!(
        provided["metadata"]["finalizers"],
        json!(["nats.kopf.dev/server"])
    );

    // The children are deleted with the tenant; each operator handles its deletions.
    stage.api.delete(&tenant(&stage)).await.ok();
    for path in [tenant(&stage), nats(&stage), services, configs] {
        stage.gone(&path).await;
    }
    let log = main.stop().await;
    let steps = ["Step 1: ", "Step 2: ", "The NATS of tenant ", "Step 3: "];
    let offsets = steps.map(|step| offset(&log, step));
    assert!(offsets.is_sorted(), "{log}");
    let log = other.stop().await;
    assert!(
        offset(&log, "/acme] The server of acme-blobs is created.")
            < offset(&log, "/acme] The server of acme-blobs is deleted."),
        "{log}"
    );
}

#[tokio::test]
async fn failed_step_delays_the_next_ones() {
    let stage = start().await;
    let foreign = kopf_tests::objects::config_map("acme-blobs", json!({"owner": "other"}));
    let path = stage.api.ns_path("configmaps");
    stage.api.created(&path, &foreign).await;
    let other = stage.run("tenant-nats");
    let mut main = stage.run("tenant-onboarding");
    create(&stage).await;
    main.await_log(
        "Handler 'create_blob_storage' failed temporarily: acme-blobs has another owner",
    )
    .await;
    main.await_log("Handler 'create_nats' failed temporarily: the blob storage is not created yet")
        .await;
    stage.api.get(&nats(&stage)).await.expect_code(404);

    stage.api.delete(&format!("{path}/acme-blobs")).await.ok();
    stage
        .until(&tenant(&stage), "it is ready", |tenant| {
            tenant["status"]["phase"] == "ready"
        })
        .await;
    let log = main.stop().await;
    let offsets = ["Step 1: ", "Step 2: ", "Step 3: "].map(|step| offset(&log, step));
    assert!(offsets.is_sorted(), "{log}");
    other.stop().await;
}

#[tokio::test]
async fn servers_without_a_tenant_are_ignored() {
    let stage = start().await;
    let mut main = stage.run("tenant-onboarding");
    let other = stage.run("tenant-nats");
    let object = only(include_str!("../../tenant-nats/nats.yaml"));
    let path = stage.api.group_path("kopf.dev/v1", "nats");
    stage.api.created(&path, &object).await;
    stage
        .until(&format!("{path}/example"), "there is a server", |nats| {
            nats["status"]["url"].is_string()
        })
        .await;
    create(&stage).await;
    main.await_log("Step 3: ").await;
    let log = main.stop().await;
    assert!(!log.contains("The NATS of tenant example"), "{log}");
    other.stop().await;
}
