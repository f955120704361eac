//! The second operator of the onboarding of tenants: creates a server for each NATS object.
//!
//! ```console
//! cargo run --bin tenant-nats -- run --sandbox -f examples/rust/tenant-onboarding/crds.yaml -f examples/rust/tenant-nats
//! kubectl get nats,services
//! ```
//!
//! For the first operator, see `tenant-onboarding`.

use kopf::k8s_openapi::api::core::v1::Service;
use kopf::kube;
use kopf::kube::api::{Api, PostParams, ResourceExt as _};
use kopf::prelude::*;
use kopf::{Object, Patch};
use kopf_examples::tenants::Nats;

/// Creates a Service in place of a real server.
#[kopf::on::create(Nats)]
async fn create_server(
    nats: Object<Nats>,
    services: Api<Service>,
    patch: Patch,
) -> kopf::Result<()> {
    let name = format!("nats-{}", nats.name_any());
    let mut service = json!({
        "metadata": {"name": name},
        "spec": {"selector": {"nats": nats.name_any()}, "ports": [{"port": 4222}]},
    });
    kopf::adopt(&nats, &mut service)?;
    let service = kopf::serde_json::from_value(service)?;
    match services.create(&PostParams::default(), &service).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        created => drop(created?),
    }
    tracing::info!("The server of {} is created.", nats.spec.storage);
    let namespace = nats.namespace().unwrap_or_default();
    let url = format!("nats://{name}.{namespace}.svc:4222");
    patch.status().set("url", url);
    Ok(())
}

/// Releases external resources of the server. Kubernetes deletes the Service with its owner.
#[kopf::on::delete(Nats)]
async fn remove_server(nats: Object<Nats>) {
    tracing::info!("The server of {} is deleted.", nats.spec.storage);
}

/// Several operators handle NATS objects, so this one uses its own finalizer.
fn main() -> std::process::ExitCode {
    let operator = Operator::builder().handlers(kopf::handlers![create_server, remove_server]);
    kopf::main(operator.settings(|settings| {
        settings.persistence.finalizer = String::from("nats.kopf.dev/server");
    }))
}
