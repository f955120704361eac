//! Resource quotas under concurrent requests.

use futures::future::join_all;
use kopf_tests::{Api, ApiResponse, eventually, objects, with_query};
use serde_json::{Value, json};

/// Creates a quota with zero usage.
async fn limit(api: &Api, spec: Value) {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "limits"}, "spec": spec,
    });
    let quotas = api.ns_path("resourcequotas");
    let made = api.created(&quotas, &quota).await;
    let hard = made.at("/spec/hard").clone();
    let names = hard.as_object().unwrap().keys();
    let used: Value = names.map(|name| (name.clone(), json!("0"))).collect();
    let status = json!({"status": {"hard": hard, "used": used}});
    let path = api.ns_path("resourcequotas/limits/status");
    api.merged(&path, &status).await;
}

async fn used(api: &Api) -> Value {
    let quota = api.get(&api.ns_path("resourcequotas/limits")).await;
    quota.expect_code(200).at("/status/used").clone()
}

/// Waits until a create request is rejected. A real server reads quotas from a cache.
async fn rejected(api: &Api, path: &str, object: &Value) -> ApiResponse {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    eventually("the quota is effective", async || {
        // A dry run is checked and not counted.
        let response = api
            .create(&with_query(path, &[("dryRun", "All")]), object)
            .await;
        assert!(
            [201, 403].contains(&response.code),
            "{name}: {}",
            response.text()
        );
        (response.code == 403).then_some(response)
    })
    .await
    .expect_failure(403, "Forbidden")
}

#[tokio::test]
async fn concurrent_requests_do_not_exceed_a_quota() {
    let api = Api::start().await;
    limit(&api, json!({"hard": {"configmaps": "5", "secrets": "0"}})).await;
    let secret = objects::secret("none", Value::Null);
    rejected(&api, &api.ns_path("secrets"), &secret).await;
    let maps = api.ns_path("configmaps");
    let names: Vec<String> = (0..20).map(|number| format!("map-{number}")).collect();
    let codes = join_all(names.iter().map(async |name| {
        let map = objects::config_map(name, Value::Null);
        api.create(&maps, &map).await.code
    }))
    .await;
    let made = codes.iter().filter(|code| **code == 201).count();
    assert_eq!(made, 5, "{codes:?}");
    assert_eq!(used(&api).await, json!({"configmaps": "5", "secrets": "0"}));
}
