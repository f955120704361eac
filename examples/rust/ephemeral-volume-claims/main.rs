//! The walkthrough of the documentation: a claim of storage for a while. It creates a real
//! PersistentVolumeClaim, lets it grow, keeps its labels, and takes it along when it goes.
//!
//! ```console
//! cargo run --bin ephemeral-volume-claims -- run --sandbox -f examples/rust/ephemeral-volume-claims
//! kubectl get evc,pvc
//! kubectl patch evc my-claim --type merge -p '{"spec": {"size": "2G"}}'
//! kubectl label evc my-claim application- owner=me
//! kubectl delete evc my-claim
//! ```

use kopf::k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kopf::kube::api::{Api, Patch as PatchOf, PatchParams, PostParams, ResourceExt as _};
use kopf::prelude::*;
use kopf::{Adoption, kube};

/// The definition of it for Kubernetes is in crd.yaml.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "kopf.dev", version = "v1", kind = "EphemeralVolumeClaim")]
#[kube(namespaced, schema = "disabled", status = "EphemeralVolumeClaimStatus")]
#[serde(rename_all = "camelCase")]
struct EphemeralVolumeClaimSpec {
    size: Option<String>,
    storage_class: Option<String>,
}

/// What the handlers have returned: it is kept under their names.
#[derive(Serialize, Deserialize, Clone, Debug)]
struct EphemeralVolumeClaimStatus {
    create_fn: Option<Created>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "kebab-case")]
struct Created {
    pvc_name: String,
}

/// A claim for a claim.
#[kopf::on::create(EphemeralVolumeClaim)]
async fn create_fn(
    evc: Object<EphemeralVolumeClaim>,
    pvcs: Api<PersistentVolumeClaim>,
    logger: Logger,
) -> kopf::Result<Created> {
    let size = required(&evc)?;
    let mut pvc = json!({
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": evc.spec.storage_class,
            "resources": {"requests": {"storage": size}},
        },
    });
    // The same name, so that pods can use it by that; the labels; and who owns it, so that Kubernetes
    // removes it after its owner.
    Adoption::default().strict().adopt(&mut pvc, &evc)?;

    let pvc = kopf::serde_json::from_value(pvc)?;
    let created = match pvcs.create(&PostParams::default(), &pvc).await {
        Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {
            // By an attempt that did not come to its end, or by somebody else?
            let existing = pvcs.get(&evc.name_any()).await?;
            if !is_owned(&existing, &evc) {
                let problem = format!("the PVC {} is there already", existing.name_any());
                return Err(kopf::temporary(problem).delay(10));
            }
            existing
        }
        created => created?,
    };
    logger.info(format_args!("PVC {} is created.", created.name_any()));
    Ok(Created {
        pvc_name: created.name_any(),
    })
}

/// Storage can grow while it is used.
#[kopf::on::update(EphemeralVolumeClaim, field = "spec.size")]
async fn update_fn(
    evc: Object<EphemeralVolumeClaim>,
    pvcs: Api<PersistentVolumeClaim>,
    patch: Patch,
    logger: Logger,
) -> kopf::Result<()> {
    let size = required(&evc)?;
    let Some(name) = pvc_name(&evc) else {
        // Without a size, none was created.
        let created = create_fn(evc, pvcs, logger).await?;
        patch.status().merge(json!({"create_fn": created}));
        return Ok(());
    };
    let patch = json!({"spec": {"resources": {"requests": {"storage": size}}}});
    let params = PatchParams::default();
    pvcs.patch(name, &params, &PatchOf::Merge(patch)).await?;
    logger.info(format_args!("PVC {name} is resized to {size}."));
    Ok(())
}

/// The labels go to the claim one by one: those which it has from elsewhere are left alone.
#[kopf::on::field(EphemeralVolumeClaim, field = "metadata.labels")]
async fn relabel(
    evc: Object<EphemeralVolumeClaim>,
    diff: Diff,
    pvcs: Api<PersistentVolumeClaim>,
    logger: Logger,
) -> kopf::Result<()> {
    let Some(name) = pvc_name(&evc) else {
        return Ok(()); // It will have them when it is created.
    };
    let patch = json!({"metadata": {"labels": diff.merge_patch()}});
    let params = PatchParams::default();
    pvcs.patch(name, &params, &PatchOf::Merge(patch)).await?;
    logger.info(format_args!("PVC {name} is relabelled."));
    Ok(())
}

fn required(evc: &EphemeralVolumeClaim) -> kopf::Result<&str> {
    let size = evc.spec.size.as_deref().filter(|size| !size.is_empty());
    size.ok_or_else(|| kopf::permanent("Size must be set."))
}

/// What `create_fn` has returned, once upon a time.
fn pvc_name(evc: &EphemeralVolumeClaim) -> Option<&str> {
    let created = evc.status.as_ref()?.create_fn.as_ref()?;
    Some(&created.pvc_name)
}

fn is_owned(pvc: &PersistentVolumeClaim, evc: &EphemeralVolumeClaim) -> bool {
    let mut owners = pvc.owner_references().iter();
    owners.any(|owner| Some(&owner.uid) == evc.metadata.uid.as_ref())
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
