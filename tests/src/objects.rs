//! Minimal valid objects of built-in kinds.

use serde_json::{Value, json};

/// Returns a ConfigMap with this data.
pub fn config_map(name: &str, data: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    if !data.is_null() {
        object["data"] = data;
    }
    object
}

/// Returns a ConfigMap with these labels.
pub fn labelled(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
    })
}

/// Returns an opaque Secret with this (Base64) data.
pub fn secret(name: &str, data: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    if !data.is_null() {
        object["data"] = data;
    }
    object
}

/// Returns a Pod with one container.
pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
    })
}

/// Returns a Service with one port.
pub fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"name": "web", "port": 80}]},
    })
}

/// Returns a Deployment of one replica.
pub fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
            },
        },
    })
}

/// Returns a Job with one container.
pub fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.com/main:1"}],
        }}},
    })
}

/// Returns a Service that leads API servers to this machine: they resolve an external name themselves.
pub fn local_service(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    })
}
