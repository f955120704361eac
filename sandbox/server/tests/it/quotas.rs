//! The usage of resource quotas, which a real cluster computes in its quota controller.

use kopf_sandbox::Sandbox;
use serde_json::{Value, json};

use crate::support::{Api, CONFIG_MAPS, config_map};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn quota(hard: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "limits"},
        "spec": {"hard": hard},
    })
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{
            "name": "main", "image": "main", "resources": {"requests": {"cpu": "100m"}},
        }]},
    })
}

async fn status(api: &Api) -> Value {
    let quota = api.get(&format!("{QUOTAS}/limits")).await.expect(200);
    quota.json()["status"].clone()
}

#[tokio::test]
async fn new_quota_counts_existing_objects() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    api.create(PODS, &pod("one")).await.expect(201);
    api.create(PODS, &pod("two")).await.expect(201);
    let hard = json!({"pods": "1", "requests.cpu": "1", "count/configmaps": "3"});
    api.create(QUOTAS, &quota(&hard)).await.expect(201);
    let used = json!({"pods": "2", "requests.cpu": "200m", "count/configmaps": "0"});
    assert_eq!(status(&api).await, json!({"hard": hard, "used": used}));

    let more = json!({"spec": {"hard": {"pods": "2", "secrets": "4"}}});
    api.merge(&format!("{QUOTAS}/limits"), &more)
        .await
        .expect(200);
    let status = status(&api).await;
    assert_eq!(status["hard"]["pods"], "2");
    assert_eq!(status["used"]["secrets"], "0");
    sandbox.shutdown().await;
}

#[tokio::test]
async fn usage_shrinks_with_deletions_and_ended_pods() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let hard = json!({"pods": "2", "requests.cpu": "1", "count/pods": "2", "configmaps": "1"});
    api.create(QUOTAS, &quota(&hard)).await.expect(201);
    api.create(PODS, &pod("one")).await.expect(201);
    api.create(PODS, &pod("two")).await.expect(201);
    api.create(PODS, &pod("three")).await.expect(403);
    let ended = json!({"status": {"phase": "Succeeded"}});
    api.merge(&format!("{PODS}/one/status"), &ended)
        .await
        .expect(200);
    let used = status(&api).await["used"].clone();
    let expected =
        json!({"pods": "1", "requests.cpu": "100m", "count/pods": "2", "configmaps": "0"});
    assert_eq!(used, expected);
    api.delete(&format!("{PODS}/one")).await.expect(200);
    api.create(PODS, &pod("three")).await.expect(201);

    api.create(CONFIG_MAPS, &config_map("one", ""))
        .await
        .expect(201);
    api.create(CONFIG_MAPS, &config_map("two", ""))
        .await
        .expect(403);
    api.delete(CONFIG_MAPS).await.expect(200);
    api.create(CONFIG_MAPS, &config_map("two", ""))
        .await
        .expect(201);
    api.delete(&format!("{QUOTAS}/limits")).await.expect(200);
    api.create(CONFIG_MAPS, &config_map("three", ""))
        .await
        .expect(201);
    sandbox.shutdown().await;
}

#[tokio::test]
async fn quotas_are_enforced_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let builder = Sandbox::builder().data(folder.path().join("data"));
        builder.build().unwrap()
    };
    let sandbox = start();
    let api = Api::of(&sandbox);
    api.create(QUOTAS, &quota(&json!({"pods": "1"})))
        .await
        .expect(201);
    api.create(PODS, &pod("one")).await.expect(201);
    sandbox.shutdown().await;

    let sandbox = start();
    let api = Api::of(&sandbox);
    api.create(PODS, &pod("two")).await.expect(403);
    api.delete(&format!("{PODS}/one")).await.expect(200);
    api.create(PODS, &pod("two")).await.expect(201);
    sandbox.shutdown().await;
}
