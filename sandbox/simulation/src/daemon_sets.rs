//! DaemonSets: a pod for each node.

use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::status::Result;
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::client::Client;
use super::fields::{Rounding, count, counts, is_active, is_true, portion, text};
use super::pods::{WANTED_NODE, matches_selector};
use super::revisions;
use super::templates::{self, label};
use super::{NODES, PODS, Resource};

const DAEMON_SETS: Resource = Resource::new("apps", "daemonsets");

pub(super) async fn reconcile(cluster: &Cluster, key: &Key) -> Result<()> {
    let client = Client::new(cluster, "daemon-set-controller");
    let Some(set) = client.get(DAEMON_SETS, key) else {
        return Ok(());
    };
    if meta::is_terminating(&set) {
        return Ok(());
    }
    revisions::record(client, &set).await?;
    let selector = set.pointer("/spec/template/spec/nodeSelector");
    let nodes: Vec<Value> = client
        .list(NODES, None)
        .into_iter()
        .filter(|node| !meta::is_terminating(node) && matches_selector(selector, node))
        .collect();
    let outcome = place(client, &set, &nodes).await;
    let pods = client.owned(PODS, &set);
    let status = status(&set, &nodes, &pods);
    client.set_status(DAEMON_SETS, &set, status).await?;
    outcome
}

/// Returns the node of a pod.
fn node_of(pod: &Value) -> &str {
    match text(pod, "/spec/nodeName") {
        "" => text(pod, WANTED_NODE),
        bound => bound,
    }
}

/// Creates missing pods, deletes misplaced ones, and replaces outdated ones.
async fn place(client: Client<'_>, set: &Value, nodes: &[Value]) -> Result<()> {
    let pods = client.owned(PODS, set);
    let mut kept: Vec<&Value> = Vec::new();
    for pod in &pods {
        let misplaced = !nodes.iter().any(|node| meta::name(node) == node_of(pod));
        let ended = !meta::is_terminating(pod) && !is_active(pod);
        let double = kept.iter().any(|other| node_of(other) == node_of(pod));
        if (misplaced || ended || double) && !meta::is_terminating(pod) {
            client.delete(PODS, pod).await?;
        } else {
            kept.push(pod);
        }
    }
    for node in nodes {
        if !kept.iter().any(|pod| node_of(pod) == meta::name(node)) {
            client.create(PODS, pod_for(set, node)).await?;
        }
    }
    if text(set, "/spec/updateStrategy/type") == "OnDelete" {
        return Ok(());
    }
    let present = revisions::present(set);
    let most = set.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable");
    let most = portion(most, count(nodes), Rounding::Up).max(1);
    let unavailable = kept
        .iter()
        .filter(|pod| !is_true(pod, "Ready") || meta::is_terminating(pod));
    let mut allowed = most - count(unavailable);
    for pod in kept {
        if label(pod, revisions::HASH) == present || meta::is_terminating(pod) {
            continue;
        }
        let ready = is_true(pod, "Ready");
        if !ready || allowed > 0 {
            allowed -= i64::from(ready);
            client.delete(PODS, pod).await?;
        }
    }
    Ok(())
}

fn pod_for(set: &Value, node: &Value) -> Value {
    let template = set.pointer("/spec/template").cloned().unwrap_or_default();
    let mut pod = templates::pod(set, &template);
    templates::set_label(&mut pod, revisions::HASH, &revisions::present(set));
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
        "nodeSelectorTerms": [{ "matchFields": [{
            "key": "metadata.name", "operator": "In", "values": [meta::name(node)],
        }]}],
    });
    pod
}

fn status(set: &Value, nodes: &[Value], pods: &[Value]) -> Value {
    let active: Vec<&Value> = pods.iter().filter(|pod| is_active(pod)).collect();
    let ready = count(active.iter().filter(|pod| is_true(pod, "Ready")));
    let present = revisions::present(set);
    let updated = active
        .iter()
        .filter(|pod| label(pod, revisions::HASH) == present);
    let desired = count(nodes);
    let mut status = counts([
        ("observedGeneration", meta::generation(set)),
        ("updatedNumberScheduled", count(updated)),
        ("numberAvailable", ready),
        ("numberUnavailable", (desired - ready).max(0)),
    ]);
    for (field, value) in [
        ("desiredNumberScheduled", desired),
        ("currentNumberScheduled", count(&active)),
        ("numberMisscheduled", 0),
        ("numberReady", ready),
    ] {
        status.insert(field.to_owned(), json!(value));
    }
    if let Some(collisions) = set.pointer("/status/collisionCount") {
        status.insert("collisionCount".to_owned(), collisions.clone());
    }
    Value::Object(status)
}
