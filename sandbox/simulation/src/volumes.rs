//! PersistentVolumes of claims: search, creation and release.

use kopf_sandbox_api::status::Result;
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::client::{Client, key_of};
use super::fields::{list, text};
use super::{VOLUMES, templates};

/// Returns the volume of a claim: the requested one, a matching one, or a new one. `None` if the
/// requested volume does not exist.
pub(super) async fn claimed(client: Client<'_>, claim: &Value) -> Result<Option<Value>> {
    let named = text(claim, "/spec/volumeName");
    if !named.is_empty() {
        let Some(volume) = client.get(VOLUMES, &Key::new(None, named)) else {
            return Ok(None);
        };
        return take(client, claim, volume).await;
    }
    let volumes = client.list(VOLUMES, None);
    if let Some(own) = volumes.iter().find(|volume| is_claimed_by(volume, claim)) {
        return Ok(Some(own.clone()));
    }
    if let Some(free) = volumes.into_iter().find(|volume| fits(volume, claim)) {
        return take(client, claim, free).await;
    }
    let name = format!("pvc-{}", meta::uid(claim));
    client.create(VOLUMES, new_volume(claim, &name)).await?;
    Ok(client.get(VOLUMES, &Key::new(None, &name)))
}

fn reference(claim: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "name": meta::name(claim),
        "namespace": meta::namespace(claim),
        "uid": meta::uid(claim),
    })
}

fn is_claimed_by(volume: &Value, claim: &Value) -> bool {
    text(volume, "/spec/claimRef/uid") == meta::uid(claim)
}

/// Reserves a volume for a claim. `None` if another claim has it.
async fn take(client: Client<'_>, claim: &Value, volume: Value) -> Result<Option<Value>> {
    let owner = text(&volume, "/spec/claimRef/uid");
    if !owner.is_empty() && owner != meta::uid(claim) {
        return Ok(None);
    }
    let reference = reference(claim);
    client
        .change(VOLUMES, &key_of(&volume), |volume| {
            meta::entry(volume, "spec").insert("claimRef".to_owned(), reference.clone());
        })
        .await?;
    Ok(Some(volume))
}

/// Returns `true` if a free volume has the class, the access modes and at least the requested size.
fn fits(volume: &Value, claim: &Value) -> bool {
    let modes = list(volume, "/spec/accessModes");
    let wanted = list(claim, "/spec/accessModes");
    volume.pointer("/spec/claimRef").is_none()
        && !meta::is_terminating(volume)
        && text(volume, "/spec/storageClassName") == text(claim, "/spec/storageClassName")
        && wanted.iter().all(|mode| modes.contains(mode))
        && bytes(text(volume, "/spec/capacity/storage"))
            >= bytes(text(claim, "/spec/resources/requests/storage"))
}

/// Returns a quantity in bytes, rounded down; zero if it is malformed.
fn bytes(quantity: &str) -> u128 {
    const UNITS: [(&str, u128); 10] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
    ];
    let unit = UNITS.iter().find(|(unit, _)| quantity.ends_with(unit));
    let (number, factor) = match unit {
        Some((unit, factor)) => (quantity.trim_end_matches(unit), *factor),
        None => (quantity, 1),
    };
    let number: u64 = number.parse().unwrap_or_default();
    u128::from(number) * factor
}

fn new_volume(claim: &Value, name: &str) -> Value {
    let storage = text(claim, "/spec/resources/requests/storage");
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": name },
        "spec": {
            "accessModes": list(claim, "/spec/accessModes"),
            "capacity": { "storage": storage },
            "claimRef": reference(claim),
            "csi": { "driver": "sandbox.kopf.dev", "volumeHandle": name },
            "persistentVolumeReclaimPolicy": "Delete",
            "volumeMode": claim.pointer("/spec/volumeMode").cloned().unwrap_or_else(|| json!("Filesystem")),
        },
    });
    if let Some(class) = claim.pointer("/spec/storageClassName") {
        volume["spec"]["storageClassName"] = class.clone();
    }
    templates::set_annotation(
        &mut volume,
        "pv.kubernetes.io/provisioned-by",
        "sandbox.kopf.dev",
    );
    volume
}

/// Deletes or releases the volumes of a deleted claim.
pub(super) async fn release(client: Client<'_>, claim: &Key) -> Result<()> {
    for volume in client.list(VOLUMES, None) {
        let owner = volume.pointer("/spec/claimRef");
        let same = owner.is_some_and(|owner| {
            owner["name"] == *claim.name && owner["namespace"] == *claim.namespace
        });
        if !same || meta::is_terminating(&volume) {
            continue;
        }
        if text(&volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
            client.delete(VOLUMES, &volume).await?;
        } else {
            let mut status = volume.get("status").cloned().unwrap_or_else(|| json!({}));
            status["phase"] = json!("Released");
            client.set_status(VOLUMES, &volume, status).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_fit_by_class_modes_and_size() {
        let volume = |size: &str, class: &str| {
            json!({ "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": { "storage": size }, "storageClassName": class,
            }})
        };
        let claim = json!({ "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": { "requests": { "storage": "1Gi" } },
        }});
        assert!(fits(&volume("1Gi", "fast"), &claim));
        assert!(fits(&volume("2G", "fast"), &claim));
        assert!(!fits(&volume("1000Mi", "fast"), &claim));
        assert!(!fits(&volume("2Gi", "slow"), &claim));
        let mut taken = volume("2Gi", "fast");
        taken["spec"]["claimRef"] = json!({ "uid": "other" });
        assert!(!fits(&taken, &claim));
    }
}
