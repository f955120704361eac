//! Services: addresses, ports, EndpointSlices and Endpoints.

use std::collections::BTreeSet;

use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::status::Result;
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::object::meta;
use kopf_sandbox_schema::selectors::LabelSelector;
use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::client::{Client, key_of};
use super::endpoints::{self, Readiness, is_ready, resolved_port};
use super::fields::{flag, is_true, list, owner_reference, text};
use super::simulator::Simulator;
use super::{PODS, SERVICES, SLICES, templates};

/// Lower addresses are reserved for services of the cluster.
const FIRST_ADDRESS: u8 = 10;
const FIRST_NODE_PORT: i64 = 30_000;
const MANAGER: &str = "endpointslice-controller.k8s.io";

pub(super) async fn reconcile(cluster: &Cluster, simulator: &Simulator, key: &Key) -> Result<()> {
    let client = Client::new(cluster, "endpointslice-controller");
    let Some(service) = client.get(SERVICES, key) else {
        return endpoints::remove(client, key).await;
    };
    if meta::is_terminating(&service) {
        return Ok(());
    }
    let kind = text(&service, "/spec/type");
    if kind != "ExternalName" {
        allocate(client, &service).await?;
        publish(client, &service).await?;
    }
    let pending = simulator.behaviour(cluster, &service) == Some(Behaviour::Pending);
    if kind == "LoadBalancer"
        && !pending
        && list(&service, "/status/loadBalancer/ingress").is_empty()
    {
        // A documentation network, in which no address is reachable.
        let [.., low] = simulator.next_number().to_be_bytes();
        let mut status = service.get("status").cloned().unwrap_or_else(|| json!({}));
        status["loadBalancer"] =
            json!({ "ingress": [{ "ip": format!("192.0.2.{low}"), "ipMode": "VIP" }] });
        client.set_status(SERVICES, &service, status).await?;
    }
    Ok(())
}

/// Assigns the missing cluster IP and node ports.
async fn allocate(client: Client<'_>, service: &Value) -> Result<()> {
    let needs_address = text(service, "/spec/clusterIP").is_empty();
    let needs_ports = matches!(text(service, "/spec/type"), "NodePort" | "LoadBalancer")
        && service.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&Value::Bool(false))
        && list(service, "/spec/ports")
            .iter()
            .any(|port| port.get("nodePort").is_none());
    if !needs_address && !needs_ports {
        return Ok(());
    }
    let others = client.list(SERVICES, None);
    let address = free_address(&others);
    let taken: BTreeSet<i64> = others
        .iter()
        .flat_map(|other| list(other, "/spec/ports"))
        .filter_map(|port| port["nodePort"].as_i64())
        .collect();
    client
        .change(SERVICES, &key_of(service), |service| {
            let spec = meta::entry(service, "spec");
            if let Some(address) = address.as_ref().filter(|_| needs_address) {
                spec.insert("clusterIP".to_owned(), json!(address));
                spec.insert("clusterIPs".to_owned(), json!([address]));
                spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
                spec.entry("ipFamilyPolicy")
                    .or_insert_with(|| json!("SingleStack"));
            }
            let mut free = (FIRST_NODE_PORT..).filter(|port| !taken.contains(port));
            let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten().filter(|_| needs_ports) {
                if port.get("nodePort").is_none() {
                    port["nodePort"] = json!(free.next());
                }
            }
        })
        .await
}

/// Returns the first free address of the service range.
fn free_address(services: &[Value]) -> Option<String> {
    let taken: BTreeSet<&str> = services
        .iter()
        .map(|service| text(service, "/spec/clusterIP"))
        .collect();
    let upper = 0..=u8::MAX;
    let mut addresses = upper.flat_map(|high| {
        let first = if high == 0 { FIRST_ADDRESS } else { 0 };
        (first..=u8::MAX).map(move |low| format!("10.0.{high}.{low}"))
    });
    addresses.find(|address| !taken.contains(address.as_str()))
}

/// Updates the EndpointSlice and the Endpoints of a service with a selector.
async fn publish(client: Client<'_>, service: &Value) -> Result<()> {
    let Some(selector) = service
        .pointer("/spec/selector")
        .filter(|it| it.is_object())
    else {
        return Ok(());
    };
    let selector = json!({ "matchLabels": selector });
    let Ok(selector) = LabelSelector::from_object(&selector, "spec.selector") else {
        return Ok(());
    };
    let mut pods = client.list(PODS, meta::namespace(service));
    pods.retain(|pod| {
        let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        selector.matches(meta::labels(pod)) && !ended && !text(pod, "/status/podIP").is_empty()
    });
    let readiness = if flag(service, "/spec/publishNotReadyAddresses") {
        Readiness::Published
    } else {
        Readiness::OfPod
    };
    slice(client, service, &pods, readiness).await?;
    endpoints::reconcile(client, service, &pods, readiness).await
}

async fn slice(
    client: Client<'_>,
    service: &Value,
    pods: &[Value],
    readiness: Readiness,
) -> Result<()> {
    let endpoints: Vec<Value> = pods.iter().map(|pod| endpoint(pod, readiness)).collect();
    let ports: Vec<Value> = list(service, "/spec/ports")
        .iter()
        .map(|port| slice_port(port, pods))
        .collect();
    let existing = client.owned(SLICES, service);
    if let Some(existing) = existing.iter().find(|it| !meta::is_terminating(it)) {
        if list(existing, "/endpoints") == endpoints && list(existing, "/ports") == ports {
            return Ok(());
        }
        let update = |slice: &mut Value| {
            slice["endpoints"] = json!(endpoints);
            slice["ports"] = json!(ports);
        };
        return client.change(SLICES, &key_of(existing), update).await;
    }
    let mut slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": format!("{}-", meta::name(service)),
            "namespace": meta::namespace(service),
            "ownerReferences": [owner_reference(service)],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    });
    templates::set_label(
        &mut slice,
        "kubernetes.io/service-name",
        meta::name(service),
    );
    templates::set_label(
        &mut slice,
        "endpointslice.kubernetes.io/managed-by",
        MANAGER,
    );
    client.create(SLICES, slice).await
}

fn endpoint(pod: &Value, readiness: Readiness) -> Value {
    let serving = is_true(pod, "Ready");
    let terminating = meta::is_terminating(pod);
    let ready = is_ready(pod, readiness);
    json!({
        "addresses": [text(pod, "/status/podIP")],
        "conditions": { "ready": ready, "serving": serving, "terminating": terminating },
        "nodeName": text(pod, "/spec/nodeName"),
        "targetRef": {
            "kind": "Pod", "name": meta::name(pod), "namespace": meta::namespace(pod),
            "uid": meta::uid(pod),
        },
    })
}

/// Returns the port of a slice.
fn slice_port(port: &Value, pods: &[Value]) -> Value {
    let target = resolved_port(port, pods);
    let name = port["name"].as_str().unwrap_or_default();
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    let mut slice = json!({ "name": name, "protocol": protocol });
    if !target.is_null() {
        slice["port"] = target;
    }
    slice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_assigned_once() {
        let service = |address: &str| json!({ "spec": { "clusterIP": address } });
        assert_eq!(free_address(&[]).unwrap(), "10.0.0.10");
        assert_eq!(
            free_address(&[service("10.0.0.10"), service("None")]).unwrap(),
            "10.0.0.11"
        );
    }

    #[test]
    fn named_ports_are_resolved_by_pods() {
        let pod = json!({ "spec": { "containers": [
            { "name": "a" }, { "name": "b", "ports": [{ "name": "http", "containerPort": 8080 }] },
        ]}});
        let port = json!({ "port": 80, "targetPort": "http", "protocol": "TCP" });
        assert_eq!(slice_port(&port, &[pod])["port"], 8080);
        assert!(slice_port(&port, &[]).get("port").is_none());
    }
}
