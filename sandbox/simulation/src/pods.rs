//! Pods: binding to a node, start, end.

use std::time::Duration;

use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::status::Result;
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::client::{Client, key_of};
use super::fields::{Condition, conditions, list, text};
use super::lifecycle::{self, State};
use super::pod_status::{View, render};
use super::simulator::Simulator;
use super::{NODES, PODS, Simulated};

/// Returns the initial node with a number.
pub(super) fn node(number: usize, now: &str) -> Value {
    let name = format!("sandbox-{number}");
    let resources =
        json!({ "cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi" });
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": "simulated",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
        },
        "spec": {},
        "status": {
            "addresses": [
                { "type": "InternalIP", "address": host_address(&name) },
                { "type": "Hostname", "address": name },
            ],
            "capacity": resources,
            "allocatable": resources,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady"),
            ],
            "nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "sandbox://1.0",
                "kernelVersion": "sandbox", "kubeProxyVersion": "", "machineID": "",
                "kubeletVersion": kopf_sandbox_api::discovery::version()["gitVersion"],
                "operatingSystem": "linux", "osImage": "sandbox", "systemUUID": "",
            },
        },
    })
}

/// Returns the address of a node: by its number, or a common one for others.
fn host_address(node: &str) -> String {
    let number: u8 = node
        .strip_prefix("sandbox-")
        .and_then(|number| number.parse().ok())
        .unwrap_or_default();
    format!("10.0.1.{number}")
}

/// Returns the maximum number of restarts of the containers of a pod.
pub(super) fn restarts(pod: &Value) -> i64 {
    let counts = list(pod, "/status/containerStatuses").iter();
    let counts = counts.filter_map(|status| status["restartCount"].as_i64());
    counts.max().unwrap_or_default()
}

pub(super) async fn reconcile(cluster: &Cluster, simulator: &Simulator, key: &Key) -> Result<()> {
    let client = Client::new(cluster, "kubelet");
    let Some(pod) = client.get(PODS, key) else {
        return Ok(());
    };
    if meta::is_terminating(&pod) {
        simulator.forget_object(meta::uid(&pod));
        return client.delete_now(PODS, &pod).await;
    }
    if matches!(text(&pod, "/status/phase"), "Succeeded" | "Failed") {
        simulator.forget_object(meta::uid(&pod));
        return Ok(());
    }
    let behaviour = simulator.behaviour(cluster, &pod);
    if text(&pod, "/spec/nodeName").is_empty() {
        return schedule(cluster, simulator, &pod, behaviour).await;
    }
    let track = simulator.track(&pod, behaviour, restarts(&pod));
    let age = track.since.elapsed();
    let policy = text(&pod, "/spec/restartPolicy");
    let timed = lifecycle::at(behaviour, policy, age, simulator.settings.timing);
    if let Some(next) = timed.next {
        // Timers fire at whole milliseconds: one more ensures that the next state has begun.
        simulator.wake(Simulated::Pods, key, next + Duration::from_millis(1));
    }
    let has_started = list(&pod, "/status/containerStatuses")
        .iter()
        .any(|status| status["containerID"].is_string());
    if timed.state == State::Creating && has_started {
        return Ok(()); // it is about to recover or to fail
    }
    let address = match text(&pod, "/status/podIP") {
        "" if timed.state != State::Creating => pod_address(simulator.next_number()),
        known => known.to_owned(),
    };
    let view = View {
        state: timed.state,
        restarts: track.restarts + timed.restarts,
        address: &address,
        host: &host_address(text(&pod, "/spec/nodeName")),
        now: &client.now(),
    };
    client.set_status(PODS, &pod, render(&pod, view)).await
}

fn pod_address(number: u32) -> String {
    let [_, high, middle, low] = number.to_be_bytes();
    format!("10.{}.{middle}.{low}", 128 + high % 64)
}

/// Binds a pod to the next node in turn, unless it has another scheduler.
async fn schedule(
    cluster: &Cluster,
    simulator: &Simulator,
    pod: &Value,
    behaviour: Option<Behaviour>,
) -> Result<()> {
    let client = Client::new(cluster, "kube-scheduler");
    let scheduler = text(pod, "/spec/schedulerName");
    if !matches!(scheduler, "" | "default-scheduler")
        || !list(pod, "/spec/schedulingGates").is_empty()
    {
        return Ok(());
    }
    let nodes = client.list(NODES, None);
    let fitting: Vec<&Value> = nodes.iter().filter(|node| fits(pod, node)).collect();
    let total = u32::try_from(fitting.len()).unwrap_or(u32::MAX);
    if total > 0 && behaviour != Some(Behaviour::Pending) {
        let chosen = usize::try_from(simulator.next_number() % total).unwrap_or_default();
        let node = fitting.get(chosen).map(|node| meta::name(node));
        return client.bind(&key_of(pod), node.unwrap_or_default()).await;
    }
    let message = format!("0/{} nodes are available: simulated.", nodes.len());
    let unscheduled = Condition {
        kind: "PodScheduled",
        holds: false,
        reason: "Unschedulable",
        message: &message,
    };
    let mut status = pod.get("status").cloned().unwrap_or_else(|| json!({}));
    let mut all = conditions(pod);
    unscheduled.set(&mut all, &client.now());
    status["conditions"] = Value::Array(all);
    client.set_status(PODS, pod, status).await
}

/// Returns `true` if a pod can run on a node: by its node selector, or by the node of a DaemonSet.
fn fits(pod: &Value, node: &Value) -> bool {
    if let Some(name) = pod.pointer(WANTED_NODE) {
        return name.as_str() == Some(meta::name(node));
    }
    let unschedulable = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    !unschedulable && matches_selector(pod.pointer("/spec/nodeSelector"), node)
}

/// Returns `true` if a node has all labels of a node selector.
pub(super) fn matches_selector(selector: Option<&Value>, node: &Value) -> bool {
    let labels = meta::labels(node);
    let wanted = selector.and_then(Value::as_object).into_iter().flatten();
    wanted
        .into_iter()
        .all(|(name, value)| labels.and_then(|labels| labels.get(name)) == Some(value))
}

/// The pointer to the node name in pods of DaemonSets.
pub(super) const WANTED_NODE: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_fit_nodes_with_the_labels_that_they_select() {
        let node = node(1, "now");
        assert!(fits(&json!({}), &node));
        assert!(fits(
            &json!({ "spec": { "nodeSelector": { "kubernetes.io/os": "linux" } } }),
            &node
        ));
        assert!(!fits(
            &json!({ "spec": { "nodeSelector": { "disk": "ssd" } } }),
            &node
        ));
        let mut cordoned = node.clone();
        cordoned["spec"]["unschedulable"] = json!(true);
        assert!(!fits(&json!({}), &cordoned));
    }

    #[test]
    fn pods_have_different_addresses() {
        assert_eq!(pod_address(1), "10.128.0.1");
        assert_eq!(pod_address(70_000), "10.129.17.112");
    }
}
