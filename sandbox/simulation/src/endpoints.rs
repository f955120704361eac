//! Endpoints of services with a selector, next to their EndpointSlices.

use kopf_sandbox_api::status::Result;
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::client::{Client, key_of};
use super::fields::{is_active, is_true, list, text};
use super::templates;
use super::{ENDPOINTS, Resource};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const HEADLESS: &str = "service.kubernetes.io/headless";

/// Updates the Endpoints of a service for the pods that it selects.
pub(super) async fn reconcile(
    client: Client<'_>,
    service: &Value,
    pods: &[Value],
    readiness: Readiness,
) -> Result<()> {
    let subsets = subsets(service, pods, readiness);
    let key = key_of(service);
    let Some(existing) = client.get(ENDPOINTS, &key) else {
        return client.create(ENDPOINTS, endpoints(service, &subsets)).await;
    };
    if list(&existing, "/subsets") == subsets {
        return Ok(());
    }
    let update = |endpoints: &mut Value| match endpoints.as_object_mut() {
        Some(fields) if subsets.is_empty() => drop(fields.remove("subsets")),
        Some(fields) => drop(fields.insert("subsets".to_owned(), json!(subsets))),
        None => {}
    };
    client.change(ENDPOINTS, &key, update).await
}

/// Deletes the Endpoints of a deleted service, which have no owner reference.
pub(super) async fn remove(client: Client<'_>, key: &Key) -> Result<()> {
    const RESOURCE: Resource = ENDPOINTS;
    match client.get(RESOURCE, key) {
        Some(endpoints)
            if meta::labels(&endpoints).is_some_and(|labels| labels[MANAGED_BY] == MANAGER) =>
        {
            client.delete(RESOURCE, &endpoints).await
        }
        _ => Ok(()),
    }
}

fn endpoints(service: &Value, subsets: &[Value]) -> Value {
    let mut endpoints = json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": { "name": meta::name(service), "namespace": meta::namespace(service) },
    });
    if let Some(labels) = meta::labels(service).filter(|labels| labels.is_object()) {
        endpoints["metadata"]["labels"] = labels.clone();
    }
    if text(service, "/spec/clusterIP") == "None" {
        templates::set_label(&mut endpoints, HEADLESS, "");
    }
    templates::set_label(&mut endpoints, MANAGED_BY, MANAGER);
    if !subsets.is_empty() {
        endpoints["subsets"] = json!(subsets);
    }
    endpoints
}

/// Returns a subset for each combination of ports: named ports can differ between pods.
fn subsets(service: &Value, pods: &[Value], readiness: Readiness) -> Vec<Value> {
    let mut subsets: Vec<Value> = Vec::new();
    for pod in pods {
        let ports: Vec<Value> = list(service, "/spec/ports")
            .iter()
            .filter_map(|port| endpoint_port(port, pod))
            .collect();
        let address = json!({
            "ip": text(pod, "/status/podIP"),
            "nodeName": text(pod, "/spec/nodeName"),
            "targetRef": {
                "kind": "Pod", "name": meta::name(pod), "namespace": meta::namespace(pod),
                "uid": meta::uid(pod),
            },
        });
        let field = if is_ready(pod, readiness) {
            "addresses"
        } else {
            "notReadyAddresses"
        };
        let same = subsets
            .iter_mut()
            .find(|subset| list(subset, "/ports") == ports);
        match same {
            Some(subset) => match subset.get_mut(field).and_then(Value::as_array_mut) {
                Some(addresses) => addresses.push(address),
                None => subset[field] = json!([address]),
            },
            None if ports.is_empty() => subsets.push(json!({ field: [address] })),
            None => subsets.push(json!({ field: [address], "ports": ports })),
        }
    }
    subsets
}

/// Returns the port of a pod, or `None` if the pod has no port of the given name.
fn endpoint_port(port: &Value, pod: &Value) -> Option<Value> {
    let number = resolved_port(port, std::slice::from_ref(pod));
    if number.is_null() {
        return None;
    }
    let mut shown =
        json!({ "port": number, "protocol": port["protocol"].as_str().unwrap_or("TCP") });
    if let Some(name) = port["name"].as_str() {
        shown["name"] = json!(name);
    }
    Some(shown)
}

/// The readiness of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    OfPod,
    /// The service publishes pods that are not ready.
    Published,
}

/// Returns `true` if a pod gets traffic.
pub(super) fn is_ready(pod: &Value, readiness: Readiness) -> bool {
    readiness == Readiness::Published || (is_true(pod, "Ready") && is_active(pod))
}

/// Returns the number of a target port, or null. Names are resolved by the first pod that has them.
pub(super) fn resolved_port(port: &Value, pods: &[Value]) -> Value {
    match &port["targetPort"] {
        Value::String(name) => pods
            .iter()
            .flat_map(|pod| list(pod, "/spec/containers"))
            .flat_map(|container| list(container, "/ports"))
            .find(|known| known["name"] == name.as_str())
            .map_or(Value::Null, |known| known["containerPort"].clone()),
        Value::Null => port["port"].clone(),
        number => number.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_grouped_by_ports_and_readiness() {
        let pod = |name: &str, port: i64, ready: &str| {
            json!({
                "metadata": { "name": name },
                "spec": { "containers": [{ "ports": [{ "name": "http", "containerPort": port }] }] },
                "status": {
                    "podIP": name, "phase": "Running",
                    "conditions": [{ "type": "Ready", "status": ready }],
                },
            })
        };
        let service = json!({ "spec": { "ports": [{ "port": 80, "targetPort": "http" }] } });
        let pods = [
            pod("a", 1, "True"),
            pod("b", 2, "True"),
            pod("c", 1, "False"),
        ];
        let found = subsets(&service, &pods, Readiness::OfPod);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0]["ports"], json!([{ "port": 1, "protocol": "TCP" }]));
        assert_eq!(found[0]["addresses"][0]["ip"], "a");
        assert_eq!(found[0]["notReadyAddresses"][0]["ip"], "c");
        assert_eq!(found[1]["addresses"][0]["ip"], "b");
        let published = subsets(&service, &pods, Readiness::Published);
        assert_eq!(list(&published[0], "/addresses").len(), 2);
        assert!(subsets(&service, &[], Readiness::OfPod).is_empty());
    }
}
