//! StatefulSets: numbered pods with claims, created and replaced in order.

use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::status::Result;
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::client::Client;
use super::fields::{count, counts, is_active, is_true, list, number, owner_reference, text};
use super::revisions;
use super::templates::{self, label};
use super::{CLAIMS, PODS, Resource};

const STATEFUL_SETS: Resource = Resource::new("apps", "statefulsets");

pub(super) async fn reconcile(cluster: &Cluster, key: &Key) -> Result<()> {
    let client = Client::new(cluster, "statefulset-controller");
    let Some(set) = client.get(STATEFUL_SETS, key) else {
        return Ok(());
    };
    if meta::is_terminating(&set) {
        return Ok(());
    }
    revisions::record(client, &set).await?;
    let outcome = advance(client, &set).await;
    let pods = client.owned(PODS, &set);
    client
        .set_status(STATEFUL_SETS, &set, status(&set, &pods))
        .await?;
    outcome
}

/// The numbers of the requested pods.
struct Ordinals {
    first: i64,
    end: i64,
}

impl Ordinals {
    fn of(set: &Value) -> Self {
        let first = number(set, "/spec/ordinals/start", 0);
        let replicas = number(set, "/spec/replicas", 1).max(0);
        Self {
            first,
            end: first.saturating_add(replicas),
        }
    }
}

/// Takes the next step: one pod at a time, unless `podManagementPolicy` is `Parallel`.
async fn advance(client: Client<'_>, set: &Value) -> Result<()> {
    let pods = client.owned(PODS, set);
    let ordered = text(set, "/spec/podManagementPolicy") != "Parallel";
    let wanted = Ordinals::of(set);
    let find = |ordinal: i64| {
        let name = pod_name(set, ordinal);
        pods.iter().find(|pod| meta::name(pod) == name)
    };
    for ordinal in wanted.first..wanted.end {
        match find(ordinal) {
            None => {
                create(client, set, ordinal).await?;
                if ordered {
                    return Ok(());
                }
            }
            Some(pod) if !is_active(pod) => {
                if !meta::is_terminating(pod) {
                    client.delete(PODS, pod).await?;
                }
                if ordered {
                    return Ok(());
                }
            }
            Some(pod) if ordered && !is_true(pod, "Ready") => return Ok(()),
            Some(_) => {}
        }
    }
    let mut surplus: Vec<(i64, &Value)> = pods
        .iter()
        .filter_map(|pod| Some((ordinal(set, pod)?, pod)))
        .filter(|(ordinal, _)| !(wanted.first..wanted.end).contains(ordinal))
        .collect();
    surplus.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
    for (_, pod) in &surplus {
        if !meta::is_terminating(pod) {
            client.delete(PODS, pod).await?;
        }
        if ordered {
            return Ok(());
        }
    }
    if surplus.is_empty() {
        replace_outdated(client, set, &pods, &wanted).await?;
    }
    Ok(())
}

/// Deletes the last outdated pod when all others are ready.
async fn replace_outdated(
    client: Client<'_>,
    set: &Value,
    pods: &[Value],
    wanted: &Ordinals,
) -> Result<()> {
    if text(set, "/spec/updateStrategy/type") == "OnDelete" {
        return Ok(());
    }
    let present = revisions::present(set);
    let partition = number(set, "/spec/updateStrategy/rollingUpdate/partition", 0);
    for ordinal in (wanted.first..wanted.end).rev() {
        let name = pod_name(set, ordinal);
        let Some(pod) = pods.iter().find(|pod| meta::name(pod) == name) else {
            return Ok(());
        };
        if ordinal >= partition && label(pod, revisions::HASH) != present {
            if !meta::is_terminating(pod) {
                client.delete(PODS, pod).await?;
            }
            return Ok(());
        }
        if !is_true(pod, "Ready") {
            return Ok(());
        }
    }
    Ok(())
}

fn pod_name(set: &Value, ordinal: i64) -> String {
    format!("{}-{ordinal}", meta::name(set))
}

fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    let rest = meta::name(pod).strip_prefix(meta::name(set))?;
    rest.strip_prefix('-')?.parse().ok()
}

async fn create(client: Client<'_>, set: &Value, ordinal: i64) -> Result<()> {
    let partition = number(set, "/spec/updateStrategy/rollingUpdate/partition", 0);
    let current = text(set, "/status/currentRevision");
    let revision = if ordinal < partition && !current.is_empty() {
        current.to_owned()
    } else {
        revisions::present(set)
    };
    let name = pod_name(set, ordinal);
    let mut pod = templates::pod(set, &revisions::template(client, set, &revision));
    meta::metadata(&mut pod).remove("generateName");
    meta::set(&mut pod, "name", name.clone());
    for (label, value) in [
        ("statefulset.kubernetes.io/pod-name", name.as_str()),
        ("apps.kubernetes.io/pod-index", &ordinal.to_string()),
        (revisions::HASH, &revision),
    ] {
        templates::set_label(&mut pod, label, value);
    }
    pod["spec"]["hostname"] = json!(name);
    if let Some(service) = set.pointer("/spec/serviceName") {
        pod["spec"]["subdomain"] = service.clone();
    }
    for template in list(set, "/spec/volumeClaimTemplates") {
        let volume = meta::name(template).to_owned();
        let claim = format!("{volume}-{name}");
        create_claim(client, set, template, &claim).await?;
        let volumes = meta::entry(&mut pod, "spec")
            .entry("volumes")
            .or_insert_with(|| json!([]));
        if let Some(volumes) = volumes.as_array_mut() {
            volumes.retain(|known| known["name"] != volume.as_str());
            volumes.push(json!({
                "name": volume, "persistentVolumeClaim": { "claimName": claim },
            }));
        }
    }
    client.create(PODS, pod).await
}

async fn create_claim(client: Client<'_>, set: &Value, template: &Value, name: &str) -> Result<()> {
    if client.exists(CLAIMS, &Key::new(meta::namespace(set), name)) {
        return Ok(());
    }
    let mut claim = template.clone();
    claim["apiVersion"] = json!("v1");
    claim["kind"] = json!("PersistentVolumeClaim");
    if let Some(claim) = claim.as_object_mut() {
        claim.remove("status");
    }
    meta::set(&mut claim, "name", name);
    meta::metadata(&mut claim).insert("namespace".to_owned(), json!(meta::namespace(set)));
    let selected = set
        .pointer("/spec/selector/matchLabels")
        .and_then(Value::as_object);
    for (label, value) in selected.into_iter().flatten() {
        templates::set_label(&mut claim, label, value.as_str().unwrap_or_default());
    }
    if text(
        set,
        "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted",
    ) == "Delete"
    {
        let mut owner = owner_reference(set);
        owner["controller"] = json!(true);
        meta::metadata(&mut claim).insert("ownerReferences".to_owned(), json!([owner]));
    }
    client.create(CLAIMS, claim).await
}

fn status(set: &Value, pods: &[Value]) -> Value {
    let active: Vec<&Value> = pods.iter().filter(|pod| is_active(pod)).collect();
    let present = revisions::present(set);
    let of_revision = |name: &str| {
        let same = active
            .iter()
            .filter(|pod| label(pod, revisions::HASH) == name);
        count(same)
    };
    let updated = of_revision(&present);
    let ready = count(active.iter().filter(|pod| is_true(pod, "Ready")));
    let wanted = number(set, "/spec/replicas", 1);
    let complete = updated == wanted && ready == wanted && count(&active) == wanted;
    let before = text(set, "/status/currentRevision");
    let current = if complete || before.is_empty() {
        present.clone()
    } else {
        before.to_owned()
    };
    let mut status = counts([
        ("observedGeneration", meta::generation(set)),
        ("readyReplicas", ready),
        ("currentReplicas", of_revision(&current)),
        ("updatedReplicas", updated),
    ]);
    status.insert("replicas".to_owned(), json!(count(&active)));
    status.insert("availableReplicas".to_owned(), json!(ready));
    status.insert("currentRevision".to_owned(), json!(current));
    status.insert("updateRevision".to_owned(), json!(present));
    status.insert("collisionCount".to_owned(), json!(0));
    Value::Object(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_are_parsed_from_names() {
        let set = json!({ "metadata": { "name": "db" }, "spec": { "replicas": 2, "ordinals": { "start": 5 } } });
        assert_eq!(
            ordinal(&set, &json!({ "metadata": { "name": "db-7" } })),
            Some(7)
        );
        assert_eq!(
            ordinal(&set, &json!({ "metadata": { "name": "db-x" } })),
            None
        );
        let wanted = Ordinals::of(&set);
        assert_eq!((wanted.first, wanted.end), (5, 7));
    }
}
