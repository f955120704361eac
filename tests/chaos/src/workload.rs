//! Changes by users: objects are created, changed and deleted.

use std::collections::BTreeMap;

use anyhow::Result;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::cluster::Cluster;
use crate::random::Random;

/// The changes by users, and the expected objects.
#[derive(Debug, Default)]
pub(crate) struct Workload {
    /// The expected objects, with the value of their field.
    pub(crate) live: BTreeMap<String, u64>,
    /// The uids of deleted objects that had the finalizer.
    pub(crate) deleted: Vec<String>,
    uids: BTreeMap<String, String>,
    pub(crate) changes: u64,
}

impl Workload {
    /// Makes one random change.
    pub(crate) async fn step(
        &mut self,
        cluster: &Cluster,
        random: &mut Random,
        most: usize,
    ) -> Result<()> {
        self.changes += 1;
        let field = self.changes;
        let names: Vec<String> = self.live.keys().cloned().collect();
        let roll = random.number(0..10);
        match random.pick(&names) {
            Some(name) if roll < 5 => {
                let patch = Patch::Merge(json!({"spec": {"field": field}}));
                let objects = &cluster.objects;
                objects.patch(name, &PatchParams::default(), &patch).await?;
                self.live.insert(name.clone(), field);
            }
            Some(name) if roll == 9 || names.len() >= most => {
                self.delete(cluster, name).await?;
            }
            _ if names.len() < most => self.create(cluster, random, field).await?,
            _ => {}
        }
        Ok(())
    }

    async fn create(&mut self, cluster: &Cluster, random: &mut Random, field: u64) -> Result<()> {
        let name = format!("object-{field}");
        let items: Vec<String> = (0..random.number(0..3))
            .map(|n| format!("item{n}"))
            .collect();
        let object = serde_json::from_value(json!({
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {"name": name},
            "spec": {"field": field, "items": items},
        }))?;
        let made = cluster
            .objects
            .create(&PostParams::default(), &object)
            .await?;
        self.uids
            .insert(name.clone(), made.metadata.uid.unwrap_or_default());
        self.live.insert(name, field);
        Ok(())
    }

    async fn delete(&mut self, cluster: &Cluster, name: &str) -> Result<()> {
        // Without the finalizer, the operator does not notice the deletion.
        let held = cluster
            .objects
            .get(name)
            .await?
            .metadata
            .finalizers
            .is_some();
        cluster
            .objects
            .delete(name, &DeleteParams::default())
            .await?;
        self.live.remove(name);
        if let Some(uid) = self.uids.remove(name)
            && held
        {
            self.deleted.push(uid);
        }
        Ok(())
    }

    /// Deletes all remaining objects.
    pub(crate) async fn clean(&mut self, cluster: &Cluster) -> Result<()> {
        let names: Vec<String> = self.live.keys().cloned().collect();
        for name in names {
            self.delete(cluster, &name).await?;
        }
        Ok(())
    }
}
