//! Fields that the server sets in a new object of a built-in kind, beyond defaults.
//!
//! Only fields that do not depend on other objects. Addresses and ports of services are in
//! the layer above, as are priorities by class. Finalizers that protect volumes
//! are not added, because their controllers do not run here.

use serde_json::{Map, Value, json};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Completes a new object with defaults, a name and a uid.
pub fn assign(group: &str, kind: &str, object: &mut Value) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    match (group, kind) {
        ("", "Node") => node(object),
        ("", "Pod") => pod(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("batch", "Job") => job(object),
        _ => {}
    }
}

/// Returns the object in a field, created if it is absent.
fn child<'a>(map: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Map<String, Value>> {
    map.entry(field)
        .or_insert_with(|| json!({}))
        .as_object_mut()
}

/// Returns the list in a field, created if it is absent.
fn list<'a>(map: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Vec<Value>> {
    map.entry(field).or_insert_with(|| json!([])).as_array_mut()
}

fn text(map: &Map<String, Value>, field: &str) -> String {
    map.get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Sets the conditions of a new node: not ready until its kubelet reports it.
fn node(node: &mut Map<String, Value>) {
    let taints = child(node, "spec").and_then(|spec| list(spec, "taints"));
    if let Some(taints) = taints
        && !taints.iter().any(|taint| taint["key"] == NOT_READY)
    {
        taints.push(json!({ "effect": "NoSchedule", "key": NOT_READY }));
    }
}

fn pod(pod: &mut Map<String, Value>) {
    let Some(spec) = child(pod, "spec") else {
        return;
    };
    if !spec.contains_key("priorityClassName") {
        spec.entry("priority").or_insert_with(|| json!(0));
    }
    raise_grace_period(spec);
    spec.entry("preemptionPolicy")
        .or_insert_with(|| json!("PreemptLowerPriority"));
    add_tolerations(spec);
    let class = quality_of_service(spec);
    if let Some(status) = child(pod, "status") {
        status.insert("phase".to_owned(), json!("Pending"));
        status.insert("qosClass".to_owned(), json!(class));
    }
}

/// Replaces a negative grace period by one second. Applies to changed pods as well.
pub fn raise_grace_period(spec: &mut Map<String, Value>) {
    let period = spec.get("terminationGracePeriodSeconds");
    if period.and_then(Value::as_i64).is_some_and(i64::is_negative) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
    }
}

/// Adds the default tolerations of a pod. Applies to changed pods as well.
pub fn add_tolerations(spec: &mut Map<String, Value>) {
    if let Some(tolerations) = list(spec, "tolerations") {
        for key in [NOT_READY, UNREACHABLE] {
            let tolerated = tolerations
                .iter()
                .any(|toleration| tolerates(toleration, key));
            if !tolerated {
                tolerations.push(json!({
                    "effect": "NoExecute",
                    "key": key,
                    "operator": "Exists",
                    "tolerationSeconds": 300,
                }));
            }
        }
    }
}

fn tolerates(toleration: &Value, key: &str) -> bool {
    let field = |name: &str| {
        toleration
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    (field("key") == key || field("key").is_empty())
        && (field("effect") == "NoExecute" || field("effect").is_empty())
}

/// Returns the QoS class of a pod: by CPU and memory of all its containers.
fn quality_of_service(spec: &Map<String, Value>) -> &'static str {
    let containers = ["containers", "initContainers"].into_iter();
    let containers = containers
        .filter_map(|field| spec.get(field)?.as_array())
        .flatten();
    let (mut any, mut all) = (false, true);
    for container in containers {
        for resource in ["cpu", "memory"] {
            let amount = |of: &str| {
                let amount = container.get("resources")?.get(of)?.get(resource);
                amount.filter(|amount| *amount != "0")
            };
            let (request, limit) = (amount("requests"), amount("limits"));
            any |= request.is_some() || limit.is_some();
            all &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

pub(crate) fn daemon_set(set: &mut Map<String, Value>) {
    let annotations = child(set, "metadata").and_then(|metadata| child(metadata, "annotations"));
    if let Some(annotations) = annotations {
        annotations.insert(
            "deprecated.daemonset.template.generation".to_owned(),
            json!("1"),
        );
    }
}

/// Sets the selector of a job to its own uid.
fn job(job: &mut Map<String, Value>) {
    let Some(metadata) = child(job, "metadata") else {
        return;
    };
    let (name, uid) = (text(metadata, "name"), text(metadata, "uid"));
    let own_labels = metadata.get("labels").cloned();
    let Some(spec) = child(job, "spec") else {
        return;
    };
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    if let Some(selector) = child(spec, "selector")
        && let Some(labels) = child(selector, "matchLabels")
    {
        labels
            .entry("batch.kubernetes.io/controller-uid")
            .or_insert_with(|| json!(uid));
    }
    let template = child(spec, "template").and_then(|template| child(template, "metadata"));
    let Some(labels) = template.and_then(|metadata| child(metadata, "labels")) else {
        return;
    };
    // Labels that were defaulted to those of the pods stay equal to them.
    let follows = own_labels.is_none_or(|own| own.as_object() == Some(&*labels));
    for (label, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        labels.entry(label).or_insert_with(|| json!(value));
    }
    let labels = labels.clone();
    if let Some(metadata) = child(job, "metadata").filter(|_| follows) {
        metadata.insert("labels".to_owned(), labels.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_classified_by_their_resources() {
        let class = |resources: Value| {
            let mut pod = json!({ "spec": { "containers": [{ "resources": resources }] } });
            assign("", "Pod", &mut pod);
            pod["status"]["qosClass"].as_str().map(str::to_owned)
        };
        let full = json!({ "cpu": "1", "memory": "1Gi" });
        assert_eq!(class(json!({})).as_deref(), Some("BestEffort"));
        assert_eq!(
            class(json!({ "requests": { "cpu": "1" } })).as_deref(),
            Some("Burstable")
        );
        assert_eq!(
            class(json!({ "limits": full })).as_deref(),
            Some("Guaranteed")
        );
        let less = json!({ "limits": full, "requests": { "cpu": "500m", "memory": "1Gi" } });
        assert_eq!(class(less).as_deref(), Some("Burstable"));
    }

    #[test]
    fn own_tolerations_are_kept() {
        let all = json!([{ "operator": "Exists" }]);
        let mut pod = json!({ "spec": { "tolerations": all } });
        assign("", "Pod", &mut pod);
        assert_eq!(pod["spec"]["tolerations"], all);
    }

    #[test]
    fn malformed_objects_are_unchanged() {
        for kind in ["Node", "Pod", "Service", "DaemonSet", "Job"] {
            for group in ["", "apps", "batch"] {
                for mut object in [
                    json!(1),
                    json!({ "spec": 1, "metadata": [] }),
                    json!({ "spec": { "template": 1, "tolerations": 2 } }),
                ] {
                    assign(group, kind, &mut object);
                }
            }
        }
    }
}
