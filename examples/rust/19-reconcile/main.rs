//! One function that keeps a ConfigMap equal to the spec: after changes of the object and of the
//! ConfigMap, after restarts, and every five minutes.
//!
//! ```console
//! cargo run --bin 19-reconcile -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl get configmaps
//! kubectl delete configmap kopf-example-1
//! kubectl patch kex kopf-example-1 --type=merge -p '{"spec": {"field": "other"}}'
//! ```

use kopf::k8s_openapi::api::core::v1::ConfigMap;
use kopf::prelude::*;
use kopf::{Children, Patch, Requeue, Trigger, Triggers};

#[kopf::on::reconcile("kopfexamples", owns = [ConfigMap], every = "5m", finalizer = true)]
async fn sync(
    Name(name): Name,
    Spec(spec): Spec,
    triggers: Triggers,
    children: Children,
    patch: Patch,
) -> kopf::Result<Requeue> {
    tracing::info!("Reconciling {name}: {triggers}.");
    if triggers.contains(Trigger::Deleted) {
        // Kubernetes deletes the ConfigMap; things outside of the cluster are deleted here.
        tracing::info!("Goodbye, {name}.");
        return Ok(Requeue::never());
    }
    let Some(field) = spec["field"].as_str() else {
        // An incomplete object is looked at again, even if nothing changes.
        return Ok(Requeue::after(kopf::duration!("30s")));
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"field": field},
    });
    // Writes nothing if nothing changes.
    children.apply(&config).await?;
    patch.status().set("synced", field);
    Ok(Requeue::never())
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![sync])
}
