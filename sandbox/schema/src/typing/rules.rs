//! Defaults of built-in types that depend on other fields of the object.

use super::defaults::set;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// A function that sets absent fields of one struct.
pub(super) type Rule = fn(&mut Map<String, Value>);

/// Package and name of a type, and its rule.
pub(super) const RULES: &[(&str, &str, Rule)] = &[
    (
        "apiextensions/v1",
        "CustomResourceDefinition",
        custom_resource_definition,
    ),
    ("apps/v1", "DaemonSetSpec", daemon_set),
    ("apps/v1", "DeploymentSpec", deployment),
    ("apps/v1", "StatefulSetSpec", stateful_set),
    (
        "autoscaling/v1",
        "HorizontalPodAutoscalerSpec",
        autoscaler_v1,
    ),
    (
        "autoscaling/v2",
        "HorizontalPodAutoscalerSpec",
        autoscaler_v2,
    ),
    ("batch/v1", "Job", job),
    ("core/v1", "Container", container),
    ("core/v1", "EphemeralContainer", container),
    ("core/v1", "LimitRangeItem", limit_range),
    ("core/v1", "Namespace", namespace),
    ("core/v1", "NodeStatus", node_status),
    ("core/v1", "Pod", pod),
    ("core/v1", "PodSpec", pod_spec),
    ("core/v1", "ReplicationController", replication_controller),
    ("core/v1", "Secret", secret),
    ("core/v1", "Service", service),
    ("core/v1", "ServicePort", service_port),
    ("core/v1", "Volume", volume),
    ("networking/v1", "NetworkPolicySpec", network_policy),
    ("rbac/v1", "ClusterRoleBinding", role_binding),
    ("rbac/v1", "RoleBinding", role_binding),
    ("rbac/v1", "Subject", subject),
    ("resource/v1", "DeviceSubRequest", device_request),
    ("resource/v1", "ExactDeviceRequest", device_request),
    ("storage/v1", "CSIDriverSpec", csi_driver),
];

/// Sets the defaults of a device request: one device.
fn device_request(request: &mut Map<String, Value>) {
    set(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" {
        set(request, "count", 1);
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the object in a field, created if it is absent.
fn child<'a>(map: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Map<String, Value>> {
    set(map, field, Map::new());
    map.get_mut(field)?.as_object_mut()
}

fn text<'a>(map: &'a Map<String, Value>, field: &str) -> &'a str {
    map.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the elements of a list, if it is present.
fn items<'a>(
    map: &'a mut Map<String, Value>,
    field: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let list = map.get_mut(field).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn is_empty(map: &Map<String, Value>, field: &str) -> bool {
    match map.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

/// Sets a string that is absent or empty.
fn set_text(map: &mut Map<String, Value>, field: &str, value: &str) {
    if is_empty(map, field) {
        map.insert(field.to_owned(), value.into());
    }
}

fn custom_resource_definition(crd: &mut Map<String, Value>) {
    let Some(spec) = child(crd, "spec") else {
        return;
    };
    if is_empty(spec, "conversion") {
        spec.insert("conversion".to_owned(), json!({ "strategy": "None" }));
    }
    if let Some(names) = child(spec, "names") {
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() {
            set_text(names, "singular", &kind.to_lowercase());
            set_text(names, "listKind", &format!("{kind}List"));
        }
    }
    let stored =
        items(spec, "versions").find(|version| version.get("storage") == Some(&true.into()));
    let stored = stored.map(|version| text(version, "name").to_owned());
    if let (Some(stored), Some(status)) = (stored, child(crd, "status"))
        && is_empty(status, "storedVersions")
    {
        status.insert("storedVersions".to_owned(), json!([stored]));
    }
}

fn rolling_update(strategy: Option<&mut Map<String, Value>>, unavailable: Value, surge: Value) {
    let Some(strategy) = strategy else { return };
    set_text(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate"
        && let Some(update) = child(strategy, "rollingUpdate")
    {
        set(update, "maxUnavailable", unavailable);
        set(update, "maxSurge", surge);
    }
}

fn deployment(spec: &mut Map<String, Value>) {
    rolling_update(child(spec, "strategy"), "25%".into(), "25%".into());
}

fn daemon_set(spec: &mut Map<String, Value>) {
    rolling_update(child(spec, "updateStrategy"), 1.into(), 0.into());
}

fn stateful_set(spec: &mut Map<String, Value>) {
    if let Some(strategy) = child(spec, "updateStrategy") {
        if is_empty(strategy, "type") {
            strategy.insert("type".to_owned(), "RollingUpdate".into());
            set(strategy, "rollingUpdate", Map::new());
        }
        if text(strategy, "type") == "RollingUpdate"
            && let Some(update) = strategy
                .get_mut("rollingUpdate")
                .and_then(Value::as_object_mut)
        {
            set(update, "partition", 0);
        }
    }
    for claim in items(spec, "volumeClaimTemplates") {
        set_text(claim, "apiVersion", "v1");
        set_text(claim, "kind", "PersistentVolumeClaim");
    }
}

fn autoscaler_v1(spec: &mut Map<String, Value>) {
    set(spec, "targetCPUUtilizationPercentage", 80);
}

fn autoscaler_v2(spec: &mut Map<String, Value>) {
    if is_empty(spec, "metrics") {
        let target = json!({ "type": "Utilization", "averageUtilization": 80 });
        let metric = json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
        spec.insert("metrics".to_owned(), json!([metric]));
    }
    if let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) {
        let percent = json!({ "type": "Percent", "value": 100, "periodSeconds": 15 });
        let pods = json!({ "type": "Pods", "value": 4, "periodSeconds": 15 });
        if let Some(up) = child(behavior, "scaleUp") {
            set(up, "stabilizationWindowSeconds", 0);
            set(up, "selectPolicy", "Max");
            set(up, "policies", json!([pods, percent]));
        }
        if let Some(down) = child(behavior, "scaleDown") {
            set(down, "selectPolicy", "Max");
            set(down, "policies", json!([percent]));
        }
    }
}

fn job(job: &mut Map<String, Value>) {
    let Some(spec) = child(job, "spec") else {
        return;
    };
    if spec.get("parallelism").is_none() {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    let limit = if spec.contains_key("backoffLimitPerIndex") {
        i32::MAX
    } else {
        6
    };
    set(spec, "backoffLimit", limit);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    set(spec, "manualSelector", false);
    let policy = if spec.contains_key("podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    set(spec, "podReplacementPolicy", policy);
    label_like_template(job);
}

/// Sets the labels of an object without labels to those of its pods.
fn label_like_template(object: &mut Map<String, Value>) {
    let template = object.get("spec").and_then(|spec| spec.get("template"));
    let labels = template.and_then(|template| template.get("metadata")?.get("labels").cloned());
    if let (Some(labels), Some(metadata)) = (labels, child(object, "metadata"))
        && is_empty(metadata, "labels")
    {
        metadata.insert("labels".to_owned(), labels);
    }
}

fn replication_controller(object: &mut Map<String, Value>) {
    let Some(spec) = child(object, "spec") else {
        return;
    };
    let template = spec
        .get("template")
        .and_then(|template| template.get("metadata"));
    let labels = template.and_then(|metadata| metadata.get("labels").cloned());
    if let Some(labels) = labels {
        if is_empty(spec, "selector") {
            spec.insert("selector".to_owned(), labels);
        }
        label_like_template(object);
    }
}

/// Returns the pull policy: `IfNotPresent`, unless the tag is `latest` or absent.
fn pull_policy(image: &str) -> &'static str {
    let name = image.split('@').next().unwrap_or_default();
    let tag = name
        .rsplit('/')
        .next()
        .and_then(|last| last.split_once(':'))
        .map(|(_, tag)| tag);
    match tag {
        Some("latest") => "Always",
        None if !image.is_empty() && !image.contains('@') => "Always",
        _ => "IfNotPresent",
    }
}

fn container(container: &mut Map<String, Value>) {
    let policy = pull_policy(text(container, "image"));
    set(container, "imagePullPolicy", policy);
}

fn volume(volume: &mut Map<String, Value>) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".to_owned(), Map::new().into());
    }
    if let Some(image) = volume.get_mut("image").and_then(Value::as_object_mut) {
        let policy = pull_policy(text(image, "reference"));
        set(image, "pullPolicy", policy);
    }
}

fn pod_spec(spec: &mut Map<String, Value>) {
    // The deprecated name of the field mirrors the new one, which takes precedence.
    let account = ["serviceAccountName", "serviceAccount"].map(|field| text(spec, field));
    let account = account
        .iter()
        .find(|name| !name.is_empty())
        .map(|&name| Value::from(name));
    if let Some(account) = account {
        spec.insert("serviceAccountName".to_owned(), account.clone());
        spec.insert("serviceAccount".to_owned(), account);
    }
}

fn pod(pod: &mut Map<String, Value>) {
    let Some(spec) = child(pod, "spec") else {
        return;
    };
    set(spec, "enableServiceLinks", true);
    let host_network = spec.get("hostNetwork") == Some(&true.into());
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            if let Some(resources) = container
                .get_mut("resources")
                .and_then(Value::as_object_mut)
            {
                copy_missing(resources, "limits", "requests");
            }
            if host_network {
                for port in items(container, "ports") {
                    if let Some(number) = port.get("containerPort").cloned() {
                        set(port, "hostPort", number);
                    }
                }
            }
        }
    }
}

/// Copies the amounts that one list has and the other lacks.
fn copy_missing(map: &mut Map<String, Value>, from: &str, to: &str) {
    let Some(amounts) = map.get(from).and_then(Value::as_object).cloned() else {
        return;
    };
    if let Some(target) = child(map, to) {
        for (name, amount) in amounts {
            target.entry(name).or_insert(amount);
        }
    }
}

fn limit_range(item: &mut Map<String, Value>) {
    if text(item, "type") == "Container" {
        copy_missing(item, "max", "default");
        copy_missing(item, "default", "defaultRequest");
        copy_missing(item, "min", "defaultRequest");
    }
}

fn namespace(namespace: &mut Map<String, Value>) {
    let Some(metadata) = child(namespace, "metadata") else {
        return;
    };
    let name = text(metadata, "name").to_owned();
    if !name.is_empty()
        && let Some(labels) = child(metadata, "labels")
    {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

fn node_status(status: &mut Map<String, Value>) {
    if !status.contains_key("allocatable")
        && let Some(capacity) = status.get("capacity").cloned()
    {
        status.insert("allocatable".to_owned(), capacity);
    }
}

/// Moves `stringData` to `data`: it is write-only.
fn secret(secret: &mut Map<String, Value>) {
    let Some(Value::Object(texts)) = secret.remove("stringData") else {
        return;
    };
    if let Some(data) = child(secret, "data") {
        for (name, text) in texts {
            let bytes = STANDARD.encode(text.as_str().unwrap_or_default());
            data.insert(name, bytes.into());
        }
    }
}

fn service(service: &mut Map<String, Value>) {
    let Some(spec) = child(service, "spec") else {
        return;
    };
    set(spec, "type", "ClusterIP");
    set(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" => {
            let config = child(spec, "sessionAffinityConfig");
            if let Some(client) = config.and_then(|config| child(config, "clientIP")) {
                set(client, "timeoutSeconds", 10800);
            }
        }
        _ => {}
    }
    let kind = text(spec, "type").to_owned();
    let external_ips = kind == "ClusterIP" && !is_empty(spec, "externalIPs");
    if matches!(&*kind, "NodePort" | "LoadBalancer") || external_ips {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(&*kind, "ClusterIP" | "NodePort" | "LoadBalancer") {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn service_port(port: &mut Map<String, Value>) {
    let unset = |value: Option<&Value>| {
        value.is_none_or(|value| value.is_null() || value == 0 || value == "")
    };
    if unset(port.get("targetPort"))
        && let Some(number) = port.get("port").cloned()
    {
        port.insert("targetPort".to_owned(), number);
    }
}

fn network_policy(spec: &mut Map<String, Value>) {
    if is_empty(spec, "policyTypes") {
        let types = if is_empty(spec, "egress") {
            json!(["Ingress"])
        } else {
            json!(["Ingress", "Egress"])
        };
        spec.insert("policyTypes".to_owned(), types);
    }
}

fn role_binding(binding: &mut Map<String, Value>) {
    if let Some(role) = child(binding, "roleRef") {
        set_text(role, "apiGroup", RBAC);
    }
}

fn subject(subject: &mut Map<String, Value>) {
    if matches!(text(subject, "kind"), "User" | "Group") {
        set_text(subject, "apiGroup", RBAC);
    }
}

fn csi_driver(spec: &mut Map<String, Value>) {
    if is_empty(spec, "volumeLifecycleModes") {
        spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
    }
}
