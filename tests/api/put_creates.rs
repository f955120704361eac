//! PUT of an absent object: some kinds are created that way, most are not.

use kopf_tests::{Api, objects};
use serde_json::{Value, json};

async fn creates(api: &Api, path: &str, object: Value) {
    let made = api.put(path, &object).await.expect_code(201);
    assert!(!made.uid().is_empty(), "{}", made.text());
    let read = api.found(path).await;
    assert_eq!(read.uid(), made.uid());
    let again = api.replaced(path, &read.json).await;
    assert_eq!(again.uid(), made.uid());
}

#[tokio::test]
async fn put_creates_objects_of_some_kinds() {
    let api = Api::start().await;
    creates(&api, &api.ns_path("services/a"), objects::service("a")).await;
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "b"},
    });
    creates(&api, &api.ns_path("endpoints/b"), endpoints).await;
    let limits = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "c"}, "spec": {"limits": []},
    });
    creates(&api, &api.ns_path("limitranges/c"), limits).await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "d"},
        "rules": [],
    });
    let path = api.group_path("rbac.authorization.k8s.io/v1", "roles/d");
    creates(&api, &path, role).await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "e"},
    });
    let path = api.group_path("coordination.k8s.io/v1", "leases/e");
    creates(&api, &path, lease).await;
    let name = api.unique("class");
    let class = json!({
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": "x",
    });
    let path = format!("/apis/node.k8s.io/v1/runtimeclasses/{name}");
    api.delete_at_end(&path);
    creates(&api, &path, class).await;
}

#[tokio::test]
async fn put_of_an_absent_object_of_other_kinds_is_rejected() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    for (path, object) in [
        (
            api.ns_path("configmaps/a"),
            objects::config_map("a", json!({})),
        ),
        (api.ns_path("pods/a"), objects::pod("a")),
        (
            api.group_path("apps/v1", "deployments/a"),
            objects::deployment("a"),
        ),
        (crd.path_of("a"), crd.object("a", json!({}))),
    ] {
        let refused = api.put(&path, &object).await;
        refused.expect_failure(404, "NotFound");
        api.get(&path).await.expect_failure(404, "NotFound");
    }
}

#[tokio::test]
async fn put_that_creates_drops_the_status() {
    let api = Api::start().await;
    let mut service = objects::service("a");
    service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    let made = api
        .put(&api.ns_path("services/a"), &service)
        .await
        .expect_code(201);
    assert_eq!(made.json["status"], json!({"loadBalancer": {}}));
}
