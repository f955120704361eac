//! Enforcement of resource quotas.
//!
//! The real control plane runs without its quota controller, so the cases store the initial status
//! themselves. After that, both servers count created objects on their own.

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

fn pod_with(name: &str, requests: Value) -> Value {
    let mut pod = objects::pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    pod
}

#[tokio::test]
async fn objects_beyond_the_quota_are_rejected() {
    let api = Api::start().await;
    let hard = json!({"configmaps": "1", "count/secrets": "1", "services.nodeports": "0"});
    limit(&api, json!({"hard": hard})).await;
    let maps = api.ns_path("configmaps");
    let mut service = objects::service("ported");
    service["spec"]["type"] = json!("NodePort");
    let response = rejected(&api, &api.ns_path("services"), &service).await;
    let why = "services \"ported\" is forbidden: exceeded quota: limits, requested: \
               services.nodeports=1, used: services.nodeports=0, limited: services.nodeports=0";
    assert_eq!(response.message(), why);

    let map = |name: &str| objects::config_map(name, Value::Null);
    api.created(&maps, &map("one")).await;
    let response = api.create(&maps, &map("two")).await;
    let why = "configmaps \"two\" is forbidden: exceeded quota: limits, requested: configmaps=1, \
               used: configmaps=1, limited: configmaps=1";
    assert_eq!(response.expect_failure(403, "Forbidden").message(), why);
    // Quotas are checked before the name.
    let response = api.create(&maps, &map("one")).await;
    response.expect_failure(403, "Forbidden");
    api.merged(&api.ns_path("configmaps/one"), &json!({"data": {"a": "b"}}))
        .await;
    assert_eq!(
        used(&api).await,
        json!({"configmaps": "1", "count/secrets": "0", "services.nodeports": "0"})
    );
}

#[tokio::test]
async fn pods_share_the_resources_of_a_quota() {
    let api = Api::start().await;
    let hard = json!({"requests.cpu": "1", "requests.memory": "1Gi", "pods": "9"});
    limit(&api, json!({"hard": hard})).await;
    let pods = api.ns_path("pods");
    let response = rejected(&api, &pods, &pod_with("vague", json!({"cpu": "1"}))).await;
    let why =
        "pods \"vague\" is forbidden: failed quota: limits: must specify requests.memory for: main";
    assert_eq!(response.message(), why);
    let response = rejected(&api, &pods, &objects::pod("vague")).await;
    let why = "must specify requests.cpu for: main; requests.memory for: main";
    assert!(response.text().contains(why), "{}", response.text());

    let one = pod_with("one", json!({"cpu": "300m", "memory": "512Mi"}));
    api.created(&pods, &one).await;
    let two = pod_with("two", json!({"cpu": "0.8", "memory": "256Mi"}));
    let response = api.create(&pods, &two).await;
    let why = "pods \"two\" is forbidden: exceeded quota: limits, requested: requests.cpu=800m, \
               used: requests.cpu=300m, limited: requests.cpu=1";
    assert_eq!(response.expect_failure(403, "Forbidden").message(), why);
    let two = pod_with("two", json!({"cpu": "0.7", "memory": "256Mi"}));
    api.created(&pods, &two).await;
    assert_eq!(
        used(&api).await,
        json!({"requests.cpu": "1", "requests.memory": "768Mi", "pods": "2"})
    );
}

#[tokio::test]
async fn scopes_restrict_a_quota_to_some_pods() {
    let api = Api::start().await;
    let spec = json!({"hard": {"pods": "0"}, "scopes": ["BestEffort"]});
    limit(&api, spec).await;
    let pods = api.ns_path("pods");
    let response = rejected(&api, &pods, &objects::pod("plain")).await;
    let why = "exceeded quota: limits, requested: pods=1, used: pods=0, limited: pods=0";
    assert!(response.text().contains(why), "{}", response.text());
    let sized = pod_with("sized", json!({"cpu": "1"}));
    api.created(&pods, &sized).await;
    assert_eq!(used(&api).await, json!({"pods": "0"}));
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
