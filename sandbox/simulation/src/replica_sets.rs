//! ReplicaSets: the requested number of pods.

use std::time::Duration;

use jiff::Timestamp;
use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::status::{ApiError, Result};
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::client::Client;
use super::fields::{
    Condition, condition, conditions, count, counts, is_active, is_true, number, text,
};
use super::simulator::Simulator;
use super::{PODS, REPLICA_SETS, Simulated, templates};

/// The condition of sets whose pods cannot be created, for example because of a quota.
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) async fn reconcile(cluster: &Cluster, simulator: &Simulator, key: &Key) -> Result<()> {
    let client = Client::new(cluster, "replicaset-controller");
    let Some(set) = client.get(REPLICA_SETS, key) else {
        return Ok(());
    };
    let outcome = if meta::is_terminating(&set) {
        Ok(())
    } else {
        scale(client, &set).await
    };
    // After a failure as well: some pods may have been created.
    let pods = client.owned(PODS, &set);
    let active: Vec<&Value> = pods.iter().filter(|pod| is_active(pod)).collect();
    let least = number(&set, "/spec/minReadySeconds", 0);
    let now = cluster.clock.now();
    let available = count(active.iter().filter(|pod| is_available(pod, least, now)));
    let ready = count(active.iter().filter(|pod| is_true(pod, "Ready")));
    if available < ready {
        simulator.wake(Simulated::ReplicaSets, key, Duration::from_secs(1));
    }
    let wanted = set.pointer("/spec/template/metadata/labels");
    let labelled = active.iter().filter(|pod| has_labels(pod, wanted));
    let mut status = counts([
        ("fullyLabeledReplicas", count(labelled)),
        ("readyReplicas", ready),
        ("availableReplicas", available),
        ("observedGeneration", meta::generation(&set)),
    ]);
    status.insert("replicas".to_owned(), json!(active.len()));
    let failure = outcome.as_ref().err().map(ApiError::message);
    let conditions = with_failure(&set, failure, &client.now());
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    client
        .set_status(REPLICA_SETS, &set, Value::Object(status))
        .await?;
    outcome
}

/// Returns the conditions with or without a failure to create or delete pods.
fn with_failure(set: &Value, failure: Option<&str>, now: &str) -> Vec<Value> {
    let mut conditions = conditions(set);
    match failure {
        // Kept as it is: the message contains a generated pod name, which differs in every attempt.
        Some(_) if is_true(set, REPLICA_FAILURE) => {}
        Some(message) => {
            let condition = Condition {
                kind: REPLICA_FAILURE,
                holds: true,
                reason: "FailedCreate",
                message,
            };
            condition.set(&mut conditions, now);
        }
        None => conditions.retain(|condition| condition["type"] != REPLICA_FAILURE),
    }
    conditions
}

/// Creates missing pods, or deletes surplus ones.
async fn scale(client: Client<'_>, set: &Value) -> Result<()> {
    let pods = client.owned(PODS, set);
    let mut active: Vec<&Value> = pods.iter().filter(|pod| is_active(pod)).collect();
    let wanted = usize::try_from(number(set, "/spec/replicas", 1)).unwrap_or_default();
    let template = set.pointer("/spec/template").cloned().unwrap_or_default();
    for _ in active.len()..wanted {
        client.create(PODS, templates::pod(set, &template)).await?;
    }
    // Deletion order: unscheduled, not ready, young pods first.
    active.sort_by_key(|pod| {
        let bound = !text(pod, "/spec/nodeName").is_empty();
        let created = std::cmp::Reverse(text(pod, "/metadata/creationTimestamp").to_owned());
        (
            bound,
            is_true(pod, "Ready"),
            created,
            meta::name(pod).to_owned(),
        )
    });
    for pod in active.iter().take(active.len().saturating_sub(wanted)) {
        client.delete(PODS, pod).await?;
    }
    Ok(())
}

/// Returns `true` if a pod has been ready for at least some seconds.
pub(super) fn is_available(pod: &Value, seconds: i64, now: Timestamp) -> bool {
    if !is_true(pod, "Ready") {
        return false;
    }
    let since = condition(pod, "Ready")
        .and_then(|ready| ready["lastTransitionTime"].as_str())
        .and_then(|time| time.parse::<Timestamp>().ok());
    seconds <= 0 || since.is_some_and(|since| now.as_second() - since.as_second() >= seconds)
}

fn has_labels(pod: &Value, wanted: Option<&Value>) -> bool {
    let labels = meta::labels(pod);
    let wanted = wanted.and_then(Value::as_object).into_iter().flatten();
    wanted
        .into_iter()
        .all(|(name, value)| labels.and_then(|labels| labels.get(name)) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_available_after_their_minimum_time() {
        let pod = json!({ "status": { "conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}});
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        assert!(is_available(&pod, 0, at("2026-01-01T00:00:00Z")));
        assert!(!is_available(&pod, 10, at("2026-01-01T00:00:09Z")));
        assert!(is_available(&pod, 10, at("2026-01-01T00:00:10Z")));
        assert!(!is_available(&json!({}), 0, at("2026-01-01T00:00:10Z")));
    }
}
