//! The onboarding of a tenant in three steps: a blob storage, then a NATS object, for which another
//! operator creates a server, then the final state.
//!
//! ```console
//! cargo run --bin tenant-onboarding -- run --sandbox -f examples/rust/tenant-onboarding
//! kubectl get tenants,nats
//! ```
//!
//! The other operator, in another terminal with the kubeconfig that the first one prints:
//!
//! ```console
//! export KUBECONFIG=…
//! cargo run --bin tenant-nats -- run --all-namespaces
//! ```

use kopf::k8s_openapi::api::core::v1::ConfigMap;
use kopf::kube;
use kopf::kube::api::{Api, Patch as PatchOf, PatchParams, PostParams, ResourceExt as _};
use kopf::prelude::*;
use kopf::serde::{Deserialize, Serialize};
use kopf::{New, Object, Patch};
use kopf_examples::tenants::{BlobStorage, Nats, NatsSpec, Tenant};

/// Creates a ConfigMap in place of a real storage.
#[kopf::on::create(Tenant)]
async fn create_blob_storage(
    tenant: Object<Tenant>,
    storages: Api<ConfigMap>,
) -> kopf::Result<BlobStorage> {
    let mut storage = ConfigMap::default();
    storage.metadata.name = Some(format!("{}-blobs", tenant.name_any()));
    kopf::adopt(&tenant, &mut storage)?;
    let name = provide(&storages, &storage, &tenant).await?;
    tracing::info!("Step 1: the blob storage {name} is created.");
    Ok(BlobStorage { name })
}

/// Handlers are called in order, but the second one does not wait for retries of the first one.
/// Therefore, it checks the result of the first one.
#[kopf::on::create(Tenant)]
async fn create_nats(tenant: Object<Tenant>, all: Api<Nats>) -> kopf::Result<()> {
    let status = tenant.status.clone().unwrap_or_default();
    let Some(storage) = status.create_blob_storage else {
        return Err(kopf::temporary("the blob storage is not created yet").delay(1));
    };
    let spec = NatsSpec {
        storage: storage.name,
    };
    let mut nats = Nats::new(&tenant.name_any(), spec);
    kopf::adopt(&tenant, &mut nats)?;
    let name = provide(&all, &nats, &tenant).await?;
    tracing::info!("Step 2: the NATS object {name} is created.");
    Ok(())
}

/// Copies the URL of the server to the tenant.
///
/// The other operator handles the changes of NATS objects and stores its progress there. Event
/// handlers store nothing, so the two operators do not interfere.
#[kopf::on::event(Nats, field = "status.url", value = PRESENT)]
async fn copy_url(nats: Object<Nats>, tenants: Api<Tenant>) -> kopf::Result<()> {
    let owner = nats.owner_references().first();
    let Some(owner) = owner.filter(|owner| owner.kind == "Tenant") else {
        return Ok(()); // NATS objects can have other owners.
    };
    tracing::info!("The NATS of tenant {} is ready.", owner.name);
    let url = nats.status.as_ref().and_then(|status| status.url.as_ref());
    let patch = PatchOf::Merge(json!({"status": {"nats": url}}));
    let params = PatchParams::default();
    match tenants.patch_status(&owner.name, &params, &patch).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        patched => drop(patched?),
    }
    Ok(())
}

/// Completes the onboarding.
#[kopf::on::field(Tenant, field = "status.nats", new = PRESENT)]
async fn complete(New(nats): New<String>, patch: Patch) {
    tracing::info!("Step 3: the tenant is ready, with NATS at {nats}.");
    patch.status().set("phase", "ready");
}

/// Creates an object, unless an earlier attempt has created it. Returns its name.
async fn provide<K>(api: &Api<K>, object: &K, tenant: &Tenant) -> kopf::Result<String>
where
    K: kube::Resource + Serialize + Clone + std::fmt::Debug + for<'de> Deserialize<'de>,
{
    let name = object.name_any();
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let found = api.get(&name).await?;
            let mut owners = found.owner_references().iter();
            if !owners.any(|owner| Some(&owner.uid) == tenant.metadata.uid.as_ref()) {
                let problem = format!("{name} has another owner");
                return Err(kopf::temporary(problem).delay(1));
            }
        }
        created => drop(created?),
    }
    Ok(name)
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![
        create_blob_storage,
        create_nats,
        copy_url,
        complete
    ])
}
