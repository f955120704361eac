//! PersistentVolumeClaims: bound to a matching volume, or to a new one.

use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::status::Result;
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::object::meta;
use serde_json::json;

use super::behaviour::Behaviour;
use super::client::{Client, key_of};
use super::fields::text;
use super::simulator::Simulator;
use super::{CLAIMS, VOLUMES, templates, volumes};

pub(super) async fn reconcile(cluster: &Cluster, simulator: &Simulator, key: &Key) -> Result<()> {
    let client = Client::new(cluster, "persistent-volume-binder");
    let Some(claim) = client.get(CLAIMS, key) else {
        return volumes::release(client, key).await;
    };
    if meta::is_terminating(&claim) || text(&claim, "/status/phase") == "Bound" {
        return Ok(());
    }
    if simulator.behaviour(cluster, &claim) == Some(Behaviour::Pending) {
        let pending = json!({ "phase": "Pending" });
        return client.set_status(CLAIMS, &claim, pending).await;
    }
    let Some(volume) = volumes::claimed(client, &claim).await? else {
        return Ok(());
    };
    if text(&claim, "/spec/volumeName").is_empty() {
        let name = meta::name(&volume).to_owned();
        client
            .change(CLAIMS, key, |claim| {
                meta::entry(claim, "spec").insert("volumeName".to_owned(), json!(name));
                templates::set_annotation(claim, "pv.kubernetes.io/bind-completed", "yes");
                templates::set_annotation(claim, "pv.kubernetes.io/bound-by-controller", "yes");
            })
            .await?;
    }
    let bound = json!({
        "phase": "Bound",
        "accessModes": volume.pointer("/spec/accessModes").cloned().unwrap_or_else(|| json!([])),
        "capacity": volume.pointer("/spec/capacity").cloned().unwrap_or_else(|| json!({})),
    });
    client.set_status(CLAIMS, &claim, bound).await?;
    let volume = client.get(VOLUMES, &key_of(&volume)).unwrap_or(volume);
    let mut status = volume.get("status").cloned().unwrap_or_else(|| json!({}));
    status["phase"] = json!("Bound");
    client.set_status(VOLUMES, &volume, status).await
}
