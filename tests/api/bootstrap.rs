//! Initial objects of a server.

use kopf_tests::Api;
use serde_json::json;

#[tokio::test]
async fn kubernetes_service_exists() {
    let api = Api::start().await;
    let service = api
        .found("/api/v1/namespaces/default/services/kubernetes")
        .await;
    assert_eq!(service.at("/spec/ports/0/name"), "https");
    assert_eq!(service.at("/spec/type"), "ClusterIP");
    assert_eq!(service.at("/metadata/labels/provider"), "kubernetes");
    assert_eq!(
        service.at("/metadata/managedFields/0/manager"),
        "kube-apiserver"
    );
}

#[tokio::test]
async fn service_cidr_exists() {
    let api = Api::start().await;
    let range = api
        .found("/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
        .await;
    assert_eq!(range.at("/status/conditions/0/type"), "Ready");
    let service = api
        .get("/api/v1/namespaces/default/services/kubernetes")
        .await;
    let address = service.at("/spec/clusterIP").as_str().unwrap().to_owned();
    let prefix = address.rsplit_once('.').unwrap().0;
    let cidr = range.at("/spec/cidrs/0").as_str().unwrap();
    assert!(cidr.starts_with(prefix), "{cidr} has not {address}");
}

#[tokio::test]
async fn priority_classes_of_the_system_exist() {
    let api = Api::start().await;
    for (name, value) in [
        ("system-node-critical", 2_000_001_000),
        ("system-cluster-critical", 2_000_000_000),
    ] {
        let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}");
        let class = api.found(&path).await;
        assert_eq!(class.json["value"], json!(value));
        assert_eq!(class.json["preemptionPolicy"], "PreemptLowerPriority");
    }
}
