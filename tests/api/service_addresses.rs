//! Cluster IPs and node ports of services.

use kopf_tests::{Api, objects};
use serde_json::{Value, json};

fn node_port_service(name: &str, node_port: Option<u64>) -> Value {
    let mut service = objects::service(name);
    service["spec"]["type"] = json!("NodePort");
    if let Some(node_port) = node_port {
        service["spec"]["ports"][0]["nodePort"] = json!(node_port);
    }
    service
}

fn port_of(service: &Value) -> u64 {
    service["spec"]["ports"][0]["nodePort"].as_u64().unwrap()
}

#[tokio::test]
async fn services_get_unique_cluster_ips() {
    let api = Api::start().await;
    let services = api.ns_path("services");
    let one = api.create(&services, &objects::service("one")).await;
    let two = api.create(&services, &objects::service("two")).await;
    let (one, two) = (one.expect_code(201), two.expect_code(201));
    let address = one.at("/spec/clusterIP");
    assert!(address.as_str().unwrap().starts_with("10.0."), "{address}");
    assert_ne!(address, two.at("/spec/clusterIP"));
    assert_eq!(one.at("/spec/clusterIPs"), &json!([address]));
    assert_eq!(one.at("/spec/ipFamilies"), &json!(["IPv4"]));
    assert_eq!(one.at("/spec/ipFamilyPolicy"), "SingleStack");

    let mut taken = objects::service("three");
    taken["spec"]["clusterIP"] = address.clone();
    let refused = api
        .create(&services, &taken)
        .await
        .expect_failure(422, "Invalid");
    assert_eq!(refused.causes(), [("FieldValueInvalid", "spec.clusterIPs")]);
}

#[tokio::test]
async fn update_without_a_cluster_ip_keeps_it() {
    let api = Api::start().await;
    let made = api
        .created(&api.ns_path("services"), &node_port_service("one", None))
        .await;
    let mut replacement = node_port_service("one", None);
    replacement["spec"]["selector"] = json!({"other": "label"});
    let path = api.ns_path("services/one");
    let updated = api.replaced(&path, &replacement).await;
    assert_eq!(updated.at("/spec/clusterIP"), made.at("/spec/clusterIP"));
    assert_eq!(port_of(&updated.json), port_of(&made.json));
}

#[tokio::test]
async fn headless_services_get_no_address() {
    let api = Api::start().await;
    let mut headless = objects::service("one");
    headless["spec"]["clusterIP"] = json!("None");
    let services = api.ns_path("services");
    let made = api.created(&services, &headless).await;
    assert_eq!(made.at("/spec/clusterIPs"), &json!(["None"]));
    assert_eq!(made.at("/spec/ipFamilies"), &json!(["IPv4"]));
    let mut manual = headless;
    manual["metadata"]["name"] = json!("two");
    manual["spec"]["selector"] = Value::Null;
    let made = api.created(&services, &manual).await;
    assert_eq!(made.at("/spec/ipFamilies"), &json!(["IPv4", "IPv6"]));
    assert_eq!(made.at("/spec/ipFamilyPolicy"), "RequireDualStack");
}

#[tokio::test]
async fn node_ports_are_unique_and_in_range() {
    let api = Api::start().await;
    let services = api.ns_path("services");
    let made = api
        .created(&services, &node_port_service("one", None))
        .await;
    let port = port_of(&made.json);
    assert!((30_000..=32_767).contains(&port), "{port}");

    for (given, why) in [(port, "already allocated"), (80, "not in the valid range")] {
        let refused = api
            .create(&services, &node_port_service("two", Some(given)))
            .await
            .expect_failure(422, "Invalid");
        assert!(refused.text().contains(why), "{}", refused.text());
    }
    api.deleted(&api.ns_path("services/one")).await;
    api.created(&services, &node_port_service("two", Some(port)))
        .await;
}

#[tokio::test]
async fn change_of_the_type_assigns_and_releases() {
    let api = Api::start().await;
    api.created(&api.ns_path("services"), &objects::service("one"))
        .await;
    let path = api.ns_path("services/one");
    let patch = json!({"spec": {"type": "NodePort"}});
    let patched = api.merged(&path, &patch).await;
    assert!(port_of(&patched.json) >= 30_000);
    let patch = json!({"spec": {"type": "ClusterIP"}});
    let patched = api.merged(&path, &patch).await;
    assert_eq!(patched.at("/spec/ports/0/nodePort"), &Value::Null);
    let patch = json!({"spec": {"type": "ExternalName", "externalName": "example.com"}});
    let patched = api.merged(&path, &patch).await;
    assert_eq!(patched.at("/spec/clusterIP"), &Value::Null);
    assert_eq!(patched.at("/spec/ipFamilies"), &Value::Null);
}

#[tokio::test]
async fn dry_runs_allocate_no_port() {
    let api = Api::start().await;
    let services = api.ns_path("services");
    // Below the ports that are assigned automatically, so that no other case gets it.
    let port = 30_000 + u64::from(std::process::id() % 80);
    let service = node_port_service("one", Some(port));
    let dry = format!("{services}?dryRun=All");
    api.created(&dry, &service).await;
    api.created(&services, &service).await;
}
