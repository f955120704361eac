//! Changes counted by `metadata.generation` of built-in kinds.

use kopf_tests::{Api, objects};
use serde_json::{Value, json};

/// Creates an object of a kind with a generation, which starts at one.
async fn made(api: &Api, all: &str, object: Value) -> String {
    let made = api.created(all, &object).await;
    assert_eq!(made.generation(), 1, "{}", made.text());
    let path = format!("{all}/{}", made.name());
    api.delete_at_end(&path);
    path
}

async fn after(api: &Api, path: &str, patch: Value) -> i64 {
    api.merged(path, &patch).await.generation()
}

fn annotation() -> Value {
    json!({"metadata": {"annotations": {"a": "b"}}})
}

fn label() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}})
}

#[tokio::test]
async fn annotations_of_a_deployment_increment_the_generation() {
    let api = Api::start().await;
    let all = api.group_path("apps/v1", "deployments");
    let path = made(&api, &all, objects::deployment("one")).await;
    assert_eq!(after(&api, &path, annotation()).await, 2);
    assert_eq!(after(&api, &path, annotation()).await, 2);
    assert_eq!(after(&api, &path, label()).await, 2);
    // Annotations of other workloads do not count.
    let all = api.group_path("apps/v1", "statefulsets");
    let path = made(&api, &all, objects::stateful_set("one")).await;
    assert_eq!(after(&api, &path, annotation()).await, 1);
    assert_eq!(after(&api, &path, label()).await, 1);
    let replicas = json!({"spec": {"replicas": 2}});
    assert_eq!(after(&api, &path, replicas).await, 2);
}

#[tokio::test]
async fn labels_of_an_endpoint_slice_increment_the_generation() {
    let api = Api::start().await;
    let all = api.group_path("discovery.k8s.io/v1", "endpointslices");
    let path = made(&api, &all, objects::endpoint_slice("one")).await;
    assert_eq!(after(&api, &path, annotation()).await, 1);
    assert_eq!(after(&api, &path, label()).await, 2);
    let endpoints = json!({"endpoints": [{"addresses": ["10.1.1.1"]}]});
    assert_eq!(after(&api, &path, endpoints).await, 3);
}

#[tokio::test]
async fn priority_class_stays_at_its_first_generation() {
    let api = Api::start().await;
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": api.unique("class")},
        "value": 5,
    });
    let path = made(&api, "/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    let description = json!({"description": "changed"});
    assert_eq!(after(&api, &path, description).await, 1);
    assert_eq!(after(&api, &path, label()).await, 1);
}

#[tokio::test]
async fn ingress_classes_and_pod_templates_have_a_generation() {
    let api = Api::start().await;
    let class = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": api.unique("class")},
        "spec": {"controller": "example.com/controller"},
    });
    let path = made(&api, "/apis/networking.k8s.io/v1/ingressclasses", class).await;
    assert_eq!(after(&api, &path, annotation()).await, 1);
    let parameters = json!({"apiGroup": "example.com", "kind": "Parameters", "name": "x"});
    let patch = json!({"spec": {"parameters": parameters}});
    assert_eq!(after(&api, &path, patch).await, 2);

    let template = json!({
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "one"},
        "template": {"spec": objects::pod("one")["spec"]},
    });
    let path = made(&api, &api.ns_path("podtemplates"), template).await;
    assert_eq!(after(&api, &path, label()).await, 1);
    let patch = json!({"template": {"metadata": {"labels": {"a": "b"}}}});
    assert_eq!(after(&api, &path, patch).await, 2);
}

#[tokio::test]
async fn pod_counts_changes_of_its_spec_and_its_deletion() {
    let api = Api::start().await;
    let mut object = objects::pod("one");
    object["spec"]["nodeName"] = json!("nowhere");
    let path = made(&api, &api.ns_path("pods"), object).await;
    assert_eq!(after(&api, &path, annotation()).await, 1);
    assert_eq!(after(&api, &path, label()).await, 1);
    let status = format!("{path}/status");
    let running = json!({"status": {"phase": "Running"}});
    assert_eq!(after(&api, &status, running).await, 1);
    let image = json!({"spec": {"containers": [{"name": "main", "image": "example.com/main:2"}]}});
    assert_eq!(after(&api, &path, image).await, 2);
    let marked = api.deleted(&path).await;
    assert_eq!(marked.generation(), 3);
    api.delete_with(&path, &json!({"gracePeriodSeconds": 0}))
        .await
        .expect_code(200);
}

#[tokio::test]
async fn some_kinds_have_no_generation_even_with_a_spec() {
    let api = Api::start().await;
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "one"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    for (all, object) in [
        (
            api.ns_path("configmaps"),
            objects::config_map("one", json!({})),
        ),
        (api.ns_path("services"), objects::service("one")),
        (api.ns_path("persistentvolumeclaims"), claim),
        (
            api.group_path("autoscaling/v2", "horizontalpodautoscalers"),
            objects::autoscaler("one"),
        ),
    ] {
        let made = api.created(&all, &object).await;
        assert!(made.at("/metadata/generation").is_null(), "{}", made.text());
        // Some servers add a finalizer to claims, which would block the deletion of the namespace.
        let mut patch = label();
        patch["metadata"]["finalizers"] = Value::Null;
        let patched = api.merge(&format!("{all}/one"), &patch).await.ok();
        assert!(
            patched.at("/metadata/generation").is_null(),
            "{}",
            patched.text()
        );
    }
}
