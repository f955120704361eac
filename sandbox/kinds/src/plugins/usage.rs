//! Usage of quota resources by one object.

use serde_json::Value;

use super::limit_ranges::{Amount, Amounts, add, list, total};
use super::{items, text};

/// Suffix of quota resources that belong to one storage class.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Compute resources that can be limited as `NAME`, `requests.NAME` and `limits.NAME`.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Returns the usage of an object by quota resource name. `collection` is `GROUP/PLURAL`.
pub(super) fn of(collection: &str, object: &Value) -> Amounts {
    let (group, plural) = collection.split_once('/').unwrap_or(("", collection));
    let mut usage = Amounts::new();
    // A real server does not count events.
    if plural == "events" && matches!(group, "" | "events.k8s.io") {
        return usage;
    }
    let counted = if group.is_empty() {
        format!("count/{plural}")
    } else {
        format!("count/{plural}.{group}")
    };
    set(&mut usage, counted, 1);
    match collection {
        "/pods" if is_active(object) => add_pod(&mut usage, object),
        "/services" => add_service(&mut usage, object),
        "/persistentvolumeclaims" => add_claim(&mut usage, object),
        "/configmaps" | "/replicationcontrollers" | "/resourcequotas" | "/secrets" => {
            set(&mut usage, plural.to_owned(), 1);
        }
        _ => {}
    }
    usage
}

/// Returns the collection (`GROUP/PLURAL`) whose objects use a quota resource.
pub(super) fn collection_of(resource: &str) -> String {
    if let Some(counted) = resource.strip_prefix("count/") {
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        return format!("{group}/{plural}");
    }
    let plural = match resource {
        "configmaps" | "replicationcontrollers" | "resourcequotas" | "secrets" => resource,
        "services" | "services.nodeports" | "services.loadbalancers" => "services",
        "persistentvolumeclaims" | "requests.storage" => "persistentvolumeclaims",
        other if other.contains(OF_CLASS) => "persistentvolumeclaims",
        _ => "pods",
    };
    format!("/{plural}")
}

/// Returns the requests and limits of a container, or of a pod spec, by quota resource name.
pub(super) fn of_container(container: &Value) -> Amounts {
    compute(
        &list(container, "/resources/requests"),
        &list(container, "/resources/limits"),
    )
}

fn set(usage: &mut Amounts, resource: String, number: usize) {
    let amount = Amount {
        shown: number.to_string(),
        nanos: i128::try_from(number)
            .unwrap_or(i128::MAX)
            .saturating_mul(1_000_000_000),
    };
    usage.insert(resource, amount);
}

/// Returns `true` until the pod has ended, which frees its resources.
fn is_active(pod: &Value) -> bool {
    !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

fn add_pod(usage: &mut Amounts, pod: &Value) {
    set(usage, "pods".to_owned(), 1);
    let (mut requests, mut limits) = (total(pod, "requests"), total(pod, "limits"));
    let mut overhead = list(pod, "/spec/overhead");
    add(&mut requests, &overhead);
    overhead.retain(|name, _| limits.contains_key(name));
    add(&mut limits, &overhead);
    usage.extend(compute(&requests, &limits));
}

fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::new();
    for (name, amount) in requests {
        let plain = COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-");
        if plain {
            usage.insert(name.clone(), amount.clone());
        }
        // The names of extended resources start with a domain.
        if plain || name.contains('/') {
            usage.insert(format!("requests.{name}"), amount.clone());
        }
    }
    for (name, amount) in limits {
        if COMPUTE.contains(&name.as_str()) {
            usage.insert(format!("limits.{name}"), amount.clone());
        }
    }
    usage
}

fn add_service(usage: &mut Amounts, service: &Value) {
    set(usage, "services".to_owned(), 1);
    let ports = items(service, "/spec/ports").count();
    let kind = text(service, "/spec/type");
    let allocates = service.pointer("/spec/allocateLoadBalancerNodePorts");
    let node_ports = match kind {
        "LoadBalancer" if allocates == Some(&Value::Bool(false)) => items(service, "/spec/ports")
            .filter(|port| port.get("nodePort").and_then(Value::as_u64) > Some(0))
            .count(),
        "NodePort" | "LoadBalancer" => ports,
        _ => 0,
    };
    set(usage, "services.nodeports".to_owned(), node_ports);
    let balancers = usize::from(kind == "LoadBalancer");
    set(usage, "services.loadbalancers".to_owned(), balancers);
}

fn add_claim(usage: &mut Amounts, claim: &Value) {
    let class = text(claim, "/spec/storageClassName");
    let storage = list(claim, "/spec/resources/requests").remove("storage");
    set(usage, "persistentvolumeclaims".to_owned(), 1);
    if !class.is_empty() {
        set(usage, format!("{class}{OF_CLASS}persistentvolumeclaims"), 1);
    }
    let Some(storage) = storage else {
        return;
    };
    if !class.is_empty() {
        usage.insert(
            format!("{class}{OF_CLASS}requests.storage"),
            storage.clone(),
        );
    }
    usage.insert("requests.storage".to_owned(), storage);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(usage: &Amounts) -> String {
        let amounts: Vec<String> = usage
            .iter()
            .map(|(name, amount)| format!("{name}={}", amount.shown))
            .collect();
        amounts.join(" ")
    }

    #[test]
    fn pods_use_resources_until_they_end() {
        let mut pod = json!({ "spec": { "containers": [{ "resources": {
            "requests": { "cpu": "90m", "example.com/gpu": "2" }, "limits": { "memory": "1Gi" },
        } }], "overhead": { "cpu": "10m" } } });
        assert_eq!(
            shown(&of("/pods", &pod)),
            "count/pods=1 cpu=100m limits.memory=1Gi pods=1 requests.cpu=100m requests.example.com/gpu=2"
        );
        pod["status"] = json!({ "phase": "Succeeded" });
        assert_eq!(shown(&of("/pods", &pod)), "count/pods=1");
    }

    #[test]
    fn services_use_node_ports_and_load_balancers() {
        let service = |kind: &str, allocate: bool| {
            let service = json!({ "spec": {
                "type": kind, "allocateLoadBalancerNodePorts": allocate,
                "ports": [{ "port": 80 }, { "port": 81, "nodePort": 30000 }],
            } });
            let usage = of("/services", &service);
            let get = |name: &str| usage.get(name).map(|amount| amount.shown.clone());
            (get("services.nodeports"), get("services.loadbalancers"))
        };
        let expected =
            |ports: &str, balancers: &str| (Some(ports.to_owned()), Some(balancers.to_owned()));
        assert_eq!(service("ClusterIP", true), expected("0", "0"));
        assert_eq!(service("NodePort", true), expected("2", "0"));
        assert_eq!(service("LoadBalancer", true), expected("2", "1"));
        assert_eq!(service("LoadBalancer", false), expected("1", "1"));
    }

    #[test]
    fn claims_use_storage_of_their_class() {
        let claim = json!({ "spec": {
            "storageClassName": "fast", "resources": { "requests": { "storage": "1Gi" } },
        } });
        assert_eq!(
            shown(&of("/persistentvolumeclaims", &claim)),
            "count/persistentvolumeclaims=1 \
             fast.storageclass.storage.k8s.io/persistentvolumeclaims=1 \
             fast.storageclass.storage.k8s.io/requests.storage=1Gi \
             persistentvolumeclaims=1 requests.storage=1Gi"
        );
    }

    #[test]
    fn every_counted_resource_leads_back_to_its_collection() {
        for collection in [
            "/pods",
            "/services",
            "/persistentvolumeclaims",
            "/secrets",
            "apps/deployments",
            "test.dev/things",
        ] {
            for resource in of(collection, &json!({})).keys() {
                assert_eq!(collection_of(resource), collection, "{resource}");
            }
        }
        assert!(of("/events", &json!({})).is_empty());
    }
}
