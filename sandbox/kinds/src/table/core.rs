//! Rows of the core group, except for pods and volumes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::object::{Object, first_three};

pub(super) fn cells(kind: &str, object: Object<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "ConfigMap" => {
            let size = object.size("/data") + object.size("/binaryData");
            vec![object.name(), json!(size), object.age()]
        }
        "Endpoints" => vec![object.name(), endpoints(object), object.age()],
        "Event" => event(object),
        "Namespace" => vec![
            object.name(),
            json!(object.text("/status/phase")),
            object.age(),
        ],
        "Node" => node(object),
        "PodTemplate" => {
            let [names, images] = object.containers("/template/spec/containers");
            vec![
                object.name(),
                names,
                images,
                object.labels("/template/metadata/labels"),
            ]
        }
        "ReplicationController" => {
            let [names, images] = object.containers("/spec/template/spec/containers");
            vec![
                object.name(),
                json!(object.integer("/spec/replicas")),
                json!(object.integer("/status/replicas")),
                json!(object.integer("/status/readyReplicas")),
                object.age(),
                names,
                images,
                object.labels("/spec/selector"),
            ]
        }
        "ResourceQuota" => resource_quota(object),
        "Secret" => {
            let size = object.size("/data");
            vec![
                object.name(),
                json!(object.text("/type")),
                json!(size),
                object.age(),
            ]
        }
        "Service" => service(object),
        "ServiceAccount" => vec![object.name(), object.age()],
        _ => return None,
    })
}

fn endpoints(object: Object<'_>) -> Value {
    if object.list("/subsets").is_empty() {
        return json!("<none>");
    }
    let mut shown = Vec::new();
    for subset in object.items("/subsets") {
        let addresses = || {
            subset
                .items("/addresses")
                .map(|address| address.text("/ip"))
        };
        // Headless services can have no ports.
        if subset.list("/ports").is_empty() {
            shown.extend(addresses().map(str::to_owned));
        }
        for port in subset.items("/ports") {
            let number = port.integer("/port");
            shown.extend(addresses().map(|ip| {
                if ip.contains(':') {
                    format!("[{ip}]:{number}")
                } else {
                    format!("{ip}:{number}")
                }
            }));
        }
    }
    json!(first_three(&shown))
}

/// Returns the row of an event in the shape of the core group or of `events.k8s.io`.
pub(super) fn event(object: Object<'_>) -> Vec<Value> {
    let either = |one: &str, other: &str| match object.text(one) {
        "" => object.text(other),
        text => text,
    };
    let since = |one: &str, other: &str| object.since(one).or_else(|| object.since(other));
    let first = since("/firstTimestamp", "/deprecatedFirstTimestamp")
        .or_else(|| object.since("/eventTime"))
        .unwrap_or_else(|| "<unknown>".to_owned());
    let mut last =
        since("/lastTimestamp", "/deprecatedLastTimestamp").unwrap_or_else(|| first.clone());
    let mut count = match object.integer("/count") {
        0 => object.integer("/deprecatedCount").max(1),
        count => count,
    };
    if object.has("/series") {
        last = object
            .since("/series/lastObservedTime")
            .unwrap_or_else(|| "<unknown>".to_owned());
        count = object.integer("/series/count");
    }
    let kind = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let target = match either("/involvedObject/name", "/regarding/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let reporter = either("/reportingComponent", "/reportingController");
    let component = match either("/source/component", "/deprecatedSource/component") {
        "" => reporter,
        component => component,
    };
    let source = match either("/source/host", "/deprecatedSource/host") {
        "" => object.text("/reportingInstance"),
        host => host,
    };
    let source = match source {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    vec![
        json!(last),
        json!(object.text("/type")),
        json!(object.text("/reason")),
        json!(target),
        json!(either("/involvedObject/fieldPath", "/regarding/fieldPath")),
        json!(source),
        json!(either("/message", "/note").trim()),
        json!(first),
        json!(count),
        object.name(),
    ]
}

fn node(object: Object<'_>) -> Vec<Value> {
    // Of repeated conditions, the last one is used.
    let ready = object
        .items("/status/conditions")
        .rfind(|it| it.text("/type") == "Ready");
    let mut status = vec![match ready.map(|condition| condition.text("/status")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    }];
    if object.is_true("/spec/unschedulable") {
        status.push("SchedulingDisabled");
    }
    let mut roles = BTreeSet::new();
    for (label, value) in object.map("/metadata/labels").into_iter().flatten() {
        let role = match label.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => role,
            None if label == "kubernetes.io/role" => value.as_str().unwrap_or_default(),
            None => "",
        };
        if !role.is_empty() {
            roles.insert(role);
        }
    }
    let roles = if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.into_iter().collect::<Vec<_>>().join(",")
    };
    let address = |kind: &str| {
        let found = object
            .items("/status/addresses")
            .find(|it| it.text("/type") == kind);
        json!(found.map_or("<none>", |address| address.text("/address")))
    };
    let mut kernel = object
        .text_or("/status/nodeInfo/kernelVersion", "<unknown>")
        .to_owned();
    let architecture = object.text("/status/nodeInfo/architecture");
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        object.name(),
        json!(status.join(",")),
        json!(roles),
        object.age(),
        json!(object.text("/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        json!(object.text_or("/status/nodeInfo/osImage", "<unknown>")),
        json!(kernel),
        json!(object.text_or("/status/nodeInfo/containerRuntimeVersion", "<unknown>")),
    ]
}

fn resource_quota(object: Object<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let used = object.map("/status/used");
    for (resource, hard) in object.map("/status/hard").into_iter().flatten() {
        let hard = kopf_sandbox_schema::json_path::scalar_text(hard);
        let used = used
            .and_then(|used| used.get(resource))
            .map(kopf_sandbox_schema::json_path::scalar_text);
        let line = format!("{resource}: {}/{hard}", used.as_deref().unwrap_or("0"));
        if resource.starts_with("limits.") {
            &mut limits
        } else {
            &mut requests
        }
        .push(line);
    }
    vec![
        object.name(),
        json!(requests.join(", ")),
        json!(limits.join(", ")),
        object.age(),
    ]
}

fn service(object: Object<'_>) -> Vec<Value> {
    let kind = object.text("/spec/type");
    let given = object.texts("/spec/externalIPs");
    let external = match kind {
        "ClusterIP" | "NodePort" if given.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => given.join(","),
        "LoadBalancer" => {
            let mut addresses = load_balancer(object);
            addresses.extend(given);
            if addresses.is_empty() {
                "<pending>".to_owned()
            } else {
                addresses.join(",")
            }
        }
        "ExternalName" => object.text("/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    };
    let ports: Vec<String> = object
        .items("/spec/ports")
        .map(|port| {
            let number = port.integer("/port");
            let protocol = port.text("/protocol");
            match port.integer("/nodePort") {
                node if node > 0 => format!("{number}:{node}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect();
    let ports = if ports.is_empty() {
        "<none>".to_owned()
    } else {
        ports.join(",")
    };
    let internal = match object.texts("/spec/clusterIPs").first() {
        Some(ip) => ip,
        None => object.text_or("/spec/clusterIP", "<none>"),
    };
    vec![
        object.name(),
        json!(kind),
        json!(internal),
        json!(external),
        json!(ports),
        object.age(),
        object.labels("/spec/selector"),
    ]
}

/// Returns the load balancer addresses of a service or an ingress, sorted and unique.
pub(super) fn load_balancer(object: Object<'_>) -> Vec<&str> {
    let addresses: BTreeSet<&str> = object
        .items("/status/loadBalancer/ingress")
        .map(|ingress| ingress.text_or("/ip", ingress.text("/hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect()
}
