//! Deployments: a ReplicaSet for each template, scaled by a rollout.

use std::time::Duration;

use jiff::Timestamp;
use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::status::Result;
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::client::{Client, key_of};
use super::fields::{Condition, condition, conditions, counts, flag, number, owner_reference};
use super::replica_sets::REPLICA_FAILURE;
use super::rollout::{Size, Strategy, step};
use super::simulator::Simulator;
use super::templates::{self, annotation, set_annotation};
use super::{REPLICA_SETS, Resource, Simulated};

const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");
const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// The ReplicaSets of a Deployment.
struct Sets {
    /// The one with the current template.
    new: Option<Value>,
    /// The others, in the order of their revisions.
    old: Vec<Value>,
}

impl Sets {
    fn of(client: Client<'_>, deployment: &Value) -> Self {
        let mut sets = client.owned(REPLICA_SETS, deployment);
        sets.sort_by_key(revision);
        let wanted = deployment.pointer("/spec/template");
        let new = sets
            .iter()
            .rposition(|set| without_hash(set.pointer("/spec/template")).as_ref() == wanted);
        let new = new.map(|position| sets.remove(position));
        Self { new, old: sets }
    }

    fn all(&self) -> impl Iterator<Item = &Value> {
        self.old.iter().chain(&self.new)
    }

    fn sum(&self, pointer: &str) -> i64 {
        self.all().map(|set| number(set, pointer, 0)).sum()
    }
}

fn revision(set: &Value) -> i64 {
    annotation(set, REVISION).parse().unwrap_or_default()
}

fn without_hash(template: Option<&Value>) -> Option<Value> {
    let mut template = template?.clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels") {
        labels.as_object_mut()?.remove(HASH);
    }
    Some(template)
}

pub(super) async fn reconcile(cluster: &Cluster, simulator: &Simulator, key: &Key) -> Result<()> {
    let client = Client::new(cluster, "deployment-controller");
    let Some(deployment) = client.get(DEPLOYMENTS, key) else {
        return Ok(());
    };
    if meta::is_terminating(&deployment) {
        return Ok(());
    }
    let sets = Sets::of(client, &deployment);
    if sets.new.is_none() && !flag(&deployment, "/spec/paused") {
        return create_set(client, &deployment, &sets).await; // its creation leads back here
    }
    number_revision(client, &deployment, &sets).await?;
    scale(client, &deployment, &sets).await?;
    clean_up(client, &deployment, &sets).await?;
    let sets = Sets::of(client, &deployment);
    let status = status(client, &deployment, &sets, cluster.clock.now());
    if let Some(left) = status.deadline {
        simulator.wake(Simulated::Deployments, key, left);
    }
    client
        .set_status(DEPLOYMENTS, &deployment, status.value)
        .await
}

async fn create_set(client: Client<'_>, deployment: &Value, sets: &Sets) -> Result<()> {
    let template = deployment
        .pointer("/spec/template")
        .cloned()
        .unwrap_or_default();
    let hash = templates::hash(&template);
    let mut set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", meta::name(deployment)),
            "namespace": meta::namespace(deployment),
            "labels": template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({})),
            "annotations": copied_annotations(deployment),
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {
            "replicas": 0,
            "minReadySeconds": number(deployment, "/spec/minReadySeconds", 0),
            "selector": deployment.pointer("/spec/selector").cloned().unwrap_or_default(),
            "template": template,
        },
    });
    templates::set_label(&mut set, HASH, &hash);
    if let Some(template) = set.pointer_mut("/spec/template") {
        templates::set_label(template, HASH, &hash);
    }
    set["spec"]["selector"]["matchLabels"][HASH] = json!(hash);
    let last = sets.old.iter().map(revision).max().unwrap_or_default();
    set_annotation(&mut set, REVISION, &(last + 1).to_string());
    let old: Vec<Size> = sets.old.iter().map(Size::of).collect();
    let wanted = number(deployment, "/spec/replicas", 1);
    let none = Size {
        wanted: 0,
        present: 0,
        available: 0,
    };
    let first = step(Strategy::of(deployment), wanted, none, &old);
    set["spec"]["replicas"] = json!(first.new);
    client.create(REPLICA_SETS, set).await
}

fn copied_annotations(deployment: &Value) -> Value {
    let mut copied = deployment
        .pointer("/metadata/annotations")
        .cloned()
        .unwrap_or_else(|| json!({}));
    if let Some(copied) = copied.as_object_mut() {
        copied.remove("kubectl.kubernetes.io/last-applied-configuration");
        // It is read from the Deployment, and can be removed there.
        copied.remove(super::behaviour::ANNOTATION);
    }
    copied
}

/// Gives the current template the highest revision, and the Deployment the same.
async fn number_revision(client: Client<'_>, deployment: &Value, sets: &Sets) -> Result<()> {
    let Some(new) = &sets.new else {
        return Ok(());
    };
    let highest = sets.old.iter().map(revision).max().unwrap_or_default();
    let number = revision(new).max(highest + 1).to_string();
    if annotation(new, REVISION) != number {
        let set = |object: &mut Value| set_annotation(object, REVISION, &number);
        client.change(REPLICA_SETS, &key_of(new), set).await?;
    }
    if annotation(deployment, REVISION) != number {
        let set = |object: &mut Value| set_annotation(object, REVISION, &number);
        client.change(DEPLOYMENTS, &key_of(deployment), set).await?;
    }
    Ok(())
}

async fn scale(client: Client<'_>, deployment: &Value, sets: &Sets) -> Result<()> {
    let Some(new) = &sets.new else {
        return Ok(());
    };
    let wanted = number(deployment, "/spec/replicas", 1);
    let old: Vec<Size> = sets.old.iter().map(Size::of).collect();
    let paused = flag(deployment, "/spec/paused");
    if paused && old.iter().any(|size| size.wanted > 0) {
        return Ok(()); // the rollout is in progress
    }
    let next = step(Strategy::of(deployment), wanted, Size::of(new), &old);
    let sizes = next.old.iter().copied().chain([next.new]);
    for (set, size) in sets.all().zip(sizes) {
        if number(set, "/spec/replicas", 1) != size {
            let resize = |object: &mut Value| object["spec"]["replicas"] = json!(size);
            client.change(REPLICA_SETS, &key_of(set), resize).await?;
        }
    }
    Ok(())
}

/// Deletes ReplicaSets beyond the history limit.
async fn clean_up(client: Client<'_>, deployment: &Value, sets: &Sets) -> Result<()> {
    let limit = number(deployment, "/spec/revisionHistoryLimit", 10);
    let limit = usize::try_from(limit).unwrap_or_default();
    let unused = |set: &&Value| {
        let size = Size::of(set);
        size.wanted == 0 && size.present == 0 && !meta::is_terminating(set)
    };
    let unused: Vec<&Value> = sets.old.iter().filter(unused).collect();
    for set in unused.iter().take(unused.len().saturating_sub(limit)) {
        client.delete(REPLICA_SETS, set).await?;
    }
    Ok(())
}

/// A status, and the time until the progress deadline.
struct Status {
    value: Value,
    deadline: Option<Duration>,
}

fn status(client: Client<'_>, deployment: &Value, sets: &Sets, now: Timestamp) -> Status {
    let wanted = number(deployment, "/spec/replicas", 1);
    let replicas = sets.sum("/status/replicas");
    let available = sets.sum("/status/availableReplicas");
    let updated = sets
        .new
        .as_ref()
        .map_or(0, |new| number(new, "/status/replicas", 0));
    let unavailable = (sets.sum("/spec/replicas") - available).max(0);
    let mut status = counts([
        ("observedGeneration", meta::generation(deployment)),
        ("replicas", replicas),
        ("updatedReplicas", updated),
        ("readyReplicas", sets.sum("/status/readyReplicas")),
        ("availableReplicas", available),
        ("unavailableReplicas", unavailable),
    ]);
    let progressed = status.iter().any(|(name, value)| {
        name != "observedGeneration"
            && deployment.pointer(&format!("/status/{name}")) != Some(value)
    });
    let least = match Strategy::of(deployment) {
        Strategy::Recreate => wanted,
        Strategy::Rolling {
            max_unavailable, ..
        } => wanted - max_unavailable,
    };
    let mut all = conditions(deployment);
    let clock = client.now();
    let enough = available >= least;
    availability(enough).set(&mut all, &clock);
    let complete = updated == wanted && replicas == wanted && available == wanted;
    let progress = match (complete, progressed) {
        (true, _) => Progress::Complete,
        (false, true) => Progress::Advanced,
        (false, false) => Progress::Unchanged,
    };
    let deadline = set_progress(deployment, &mut all, progress, now);
    all.retain(|condition| condition["type"] != REPLICA_FAILURE);
    let failing = sets.new.iter().chain(&sets.old);
    let mut failures = failing.filter_map(|set| condition(set, REPLICA_FAILURE));
    all.extend(failures.next().cloned());
    for condition in &mut all {
        if condition.get("lastUpdateTime").is_none() {
            condition["lastUpdateTime"] = condition["lastTransitionTime"].clone();
        }
    }
    status.insert("conditions".to_owned(), Value::Array(all));
    Status {
        value: Value::Object(status),
        deadline,
    }
}

fn availability(enough: bool) -> Condition<'static> {
    let (reason, message) = if enough {
        (
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    Condition {
        kind: "Available",
        holds: enough,
        reason,
        message,
    }
}

/// The progress of a rollout since the last status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Complete,
    Advanced,
    Unchanged,
}

/// Sets the condition `Progressing`. Returns the time until the deadline if one is running.
fn set_progress(
    deployment: &Value,
    all: &mut Vec<Value>,
    progress: Progress,
    now: Timestamp,
) -> Option<Duration> {
    let name = meta::name(deployment);
    let limit = number(deployment, "/spec/progressDeadlineSeconds", 600);
    let before = condition(deployment, "Progressing");
    let since = before
        .and_then(|before| before["lastUpdateTime"].as_str())
        .and_then(|time| time.parse::<Timestamp>().ok())
        .filter(|_| progress == Progress::Unchanged)
        .unwrap_or(now);
    let left = limit - (now.as_second() - since.as_second());
    let was = |reason: &str| before.is_some_and(|before| before["reason"] == reason);
    let finished = was("NewReplicaSetAvailable");
    let unchanged = progress == Progress::Unchanged;
    let (holds, reason, message) = if progress == Progress::Complete || (finished && unchanged) {
        let message = format!("Deployment {name:?} has successfully progressed.");
        (true, "NewReplicaSetAvailable", message)
    } else if left <= 0 || (was("ProgressDeadlineExceeded") && unchanged) {
        let message = format!("Deployment {name:?} has timed out progressing.");
        (false, "ProgressDeadlineExceeded", message)
    } else {
        let message = format!("Deployment {name:?} is progressing.");
        (true, "ReplicaSetUpdated", message)
    };
    let condition = Condition {
        kind: "Progressing",
        holds,
        reason,
        message: &message,
    };
    condition.set(all, &kopf_sandbox_store::clock::rfc3339_seconds(now));
    if progress == Progress::Advanced || before.is_none_or(|before| before["reason"] != reason) {
        let updated = kopf_sandbox_store::clock::rfc3339_seconds(now);
        for condition in all.iter_mut().filter(|it| it["type"] == "Progressing") {
            condition["lastUpdateTime"] = json!(updated);
        }
    }
    let seconds = u64::try_from(left)
        .ok()
        .filter(|_| reason == "ReplicaSetUpdated")?;
    Some(Duration::from_secs(seconds.max(1)))
}
