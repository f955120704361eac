//! What users do meanwhile: objects are created, changed and deleted.

use std::collections::BTreeMap;

use anyhow::Result;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::chance::Chance;
use crate::cluster::Cluster;

/// What was done, and what is to be expected.
#[derive(Debug, Default)]
pub(crate) struct Workload {
    /// The objects that should be there in the end, with the value of their field.
    pub(crate) live: BTreeMap<String, u64>,
    /// The uids of those that should not.
    pub(crate) deleted: Vec<String>,
    uids: BTreeMap<String, String>,
    pub(crate) changes: u64,
}

impl Workload {
    /// Does one thing.
    pub(crate) async fn step(
        &mut self,
        cluster: &Cluster,
        chance: &mut Chance,
        most: usize,
    ) -> Result<()> {
        self.changes += 1;
        let field = self.changes;
        let names: Vec<String> = self.live.keys().cloned().collect();
        let roll = chance.number(0..10);
        match chance.pick(&names) {
            Some(name) if roll < 5 => {
                let patch = Patch::Merge(json!({"spec": {"field": field}}));
                let objects = &cluster.objects;
                objects.patch(name, &PatchParams::default(), &patch).await?;
                self.live.insert(name.clone(), field);
            }
            Some(name) if roll == 9 || names.len() >= most => {
                self.delete(cluster, name).await?;
            }
            _ if names.len() < most => self.create(cluster, chance, field).await?,
            _ => {}
        }
        Ok(())
    }

    async fn create(&mut self, cluster: &Cluster, chance: &mut Chance, field: u64) -> Result<()> {
        let name = format!("object-{field}");
        let items: Vec<String> = (0..chance.number(0..3))
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
        // What the operator has never seen is not held by its finalizer, and goes unnoticed.
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

    /// Deletes what is left.
    pub(crate) async fn clean(&mut self, cluster: &Cluster) -> Result<()> {
        let names: Vec<String> = self.live.keys().cloned().collect();
        for name in names {
            self.delete(cluster, &name).await?;
        }
        Ok(())
    }
}
