//! The walkthrough of the guide: a temporary claim of storage. The operator creates a
//! PersistentVolumeClaim, resizes it, keeps its labels up to date, and deletes the claim when no
//! pod has used it for `expiresAfter` seconds. The PersistentVolumeClaim is deleted with its owner.
//!
//! ```console
//! cargo run --bin ephemeral-volume-claims -- run --sandbox -f examples/rust/ephemeral-volume-claims
//! kubectl get evc,pvc
//! kubectl patch evc my-claim --type merge -p '{"spec": {"size": "2G"}}'
//! kubectl label evc my-claim application- owner=me
//! kubectl patch evc my-claim --type merge -p '{"spec": {"expiresAfter": 10}}'   # or: kubectl delete evc my-claim
//! ```

use kopf::jiff::Timestamp;
use kopf::k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kopf::kube::api::{
    Api, DeleteParams, ListParams, Patch as PatchOf, PatchParams, PostParams, Preconditions,
    ResourceExt as _,
};
use kopf::prelude::*;
use kopf::{Adoption, Now, Object, Patch, kube};

/// The CRD in crd.yaml also has limits, columns and descriptions.
#[kopf::resource(group = "kopf.dev", version = "v1", kind = "EphemeralVolumeClaim")]
#[kube(namespaced, shortname = "evc", status = "EphemeralVolumeClaimStatus")]
#[serde(rename_all = "camelCase")]
struct EphemeralVolumeClaimSpec {
    size: Option<String>,
    storage_class: Option<String>,
    expires_after: Option<u64>,
}

/// Results of handlers under their names, and fields that handlers set.
#[kopf::schema]
#[derive(Default)]
struct EphemeralVolumeClaimStatus {
    create_fn: Option<Created>,
    #[serde(rename = "inUse")]
    in_use: Option<bool>,
    #[serde(rename = "unusedSince")]
    #[schemars(with = "Option<String>")]
    unused_since: Option<Timestamp>,
}

#[kopf::schema]
#[serde(rename_all = "kebab-case")]
struct Created {
    pvc_name: String,
}

#[kopf::on::create(EphemeralVolumeClaim)]
async fn create_fn(
    evc: Object<EphemeralVolumeClaim>,
    pvcs: Api<PersistentVolumeClaim>,
) -> kopf::Result<Created> {
    let size = required(&evc)?;
    let mut pvc = json!({
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": evc.spec.storage_class,
            "resources": {"requests": {"storage": size}},
        },
    });
    // Sets the same name, which pods refer to, the labels, and the owner reference.
    Adoption::default().strict().apply(&evc, &mut pvc)?;

    let pvc = kopf::serde_json::from_value(pvc)?;
    let created = match pvcs.create(&PostParams::default(), &pvc).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            // Either an interrupted attempt has created it, or another client.
            let existing = pvcs.get(&evc.name_any()).await?;
            if !is_owned(&existing, &evc) {
                let problem = format!("PVC {} has another owner", existing.name_any());
                return Err(kopf::temporary(problem).delay(10));
            }
            existing
        }
        created => created?,
    };
    tracing::info!("PVC {} is created.", created.name_any());
    Ok(Created {
        pvc_name: created.name_any(),
    })
}

#[kopf::on::update(EphemeralVolumeClaim, field = "spec.size")]
async fn update_fn(
    evc: Object<EphemeralVolumeClaim>,
    pvcs: Api<PersistentVolumeClaim>,
    patch: Patch,
) -> kopf::Result<()> {
    let size = required(&evc)?;
    let Some(name) = pvc_name(&evc) else {
        // The object was created without a size.
        let created = create_fn(evc, pvcs).await?;
        patch.status().set("create_fn", created);
        return Ok(());
    };
    let patch = json!({"spec": {"resources": {"requests": {"storage": size}}}});
    let params = PatchParams::default();
    pvcs.patch(name, &params, &PatchOf::Merge(patch)).await?;
    tracing::info!("PVC {name} is resized to {size}.");
    Ok(())
}

/// Copies only changed labels, so other labels of the PVC are kept.
#[kopf::on::field(EphemeralVolumeClaim, field = "metadata.labels")]
async fn relabel(
    evc: Object<EphemeralVolumeClaim>,
    diff: Diff,
    pvcs: Api<PersistentVolumeClaim>,
) -> kopf::Result<()> {
    let Some(name) = pvc_name(&evc) else {
        return Ok(()); // `create_fn` copies the labels.
    };
    let patch = json!({"metadata": {"labels": diff.merge_patch()}});
    let params = PatchParams::default();
    pvcs.patch(name, &params, &PatchOf::Merge(patch)).await?;
    tracing::info!("PVC {name} is relabelled.");
    Ok(())
}

/// Deletes the claim when it expires. Claims without `expiresAfter` have no timer.
#[kopf::timer(EphemeralVolumeClaim, interval = 5, field = "spec.expiresAfter", value = PRESENT)]
async fn expire(
    evc: Object<EphemeralVolumeClaim>,
    evcs: Api<EphemeralVolumeClaim>,
    pods: Api<Pod>,
    Now(now): Now,
    patch: Patch,
) -> kopf::Result<()> {
    let status = evc.status.clone().unwrap_or_default();
    let was_used = status.in_use == Some(true);
    let pods = pods.list(&ListParams::default()).await?;
    let is_used = pods.iter().any(|pod| uses(pod, &evc.name_any()));
    if is_used != was_used {
        patch.status().merge(json!({
            "inUse": is_used,
            "unusedSince": (!is_used).then(|| now.to_string()),
        }));
        return Ok(());
    }
    if is_used {
        return Ok(());
    }
    let created = || evc.creation_timestamp().map_or(now, |time| time.0);
    let since = status.unused_since.unwrap_or_else(created);
    let limit = evc.spec.expires_after.unwrap_or(u64::MAX);
    let unused = u64::try_from(now.duration_since(since).as_secs()).unwrap_or_default();
    if unused >= limit {
        tracing::info!("Unused for {limit} seconds: deleting the claim.");
        // A new object of the same name has another uid, and is kept.
        let same_uid = Preconditions {
            uid: evc.metadata.uid.clone(),
            resource_version: None,
        };
        evcs.delete(
            &evc.name_any(),
            &DeleteParams::default().preconditions(same_uid),
        )
        .await?;
    }
    Ok(())
}

fn required(evc: &EphemeralVolumeClaim) -> kopf::Result<&str> {
    let size = evc.spec.size.as_deref().filter(|size| !size.is_empty());
    size.ok_or_else(|| kopf::permanent("spec.size must be set"))
}

/// Returns the name in the result of `create_fn`.
fn pvc_name(evc: &EphemeralVolumeClaim) -> Option<&str> {
    let created = evc.status.as_ref()?.create_fn.as_ref()?;
    Some(&created.pvc_name)
}

fn is_owned(pvc: &PersistentVolumeClaim, evc: &EphemeralVolumeClaim) -> bool {
    let mut owners = pvc.owner_references().iter();
    owners.any(|owner| Some(&owner.uid) == evc.metadata.uid.as_ref())
}

/// Returns `true` if a pod that has not finished refers to the claim.
fn uses(pod: &Pod, claim: &str) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let is_finished = matches!(phase, Some("Succeeded" | "Failed"));
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    let mut claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    !is_finished && claims.any(|source| source.claim_name == claim)
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![create_fn, update_fn, relabel, expire])
}
