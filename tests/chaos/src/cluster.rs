//! A sandbox with faults for the operator's requests only, and the history of its objects.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use kopf_sandbox::manifests::Manifests;
use kopf_sandbox::{Listen, Listening, Sandbox};
use kube::api::{ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The user of the operator. Faults apply to this user only.
pub(crate) const USER: &str = "chaos-operator";
const TOKEN: &str = "chaos-operator-token";

pub(crate) struct Cluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) listening: Listening,
    pub(crate) objects: Api<DynamicObject>,
    pub(crate) history: History,
    _watching: JoinSet<()>,
}

impl Cluster {
    pub(crate) async fn start(seed: u64, kubeconfig: &Path) -> Result<Self> {
        let sandbox = Sandbox::builder()
            .seed(seed)
            .token(TOKEN, USER, ["system:masters"])
            .build()?;
        let definition = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/crd.yaml");
        Manifests::read(&[definition.into()])?
            .load(&sandbox)
            .await?;
        let listening = sandbox.listen(Listen::default()).await?;
        std::fs::write(kubeconfig, listening.kubeconfig_with_token(TOKEN))?;
        let client = Client::new(sandbox.service(), "default");
        let kind = GroupVersionKind::gvk("kopf.dev", "v1", "KopfExample");
        let objects = Api::namespaced_with(client, "default", &ApiResource::from_gvk(&kind));
        let history = History::default();
        let mut watching = JoinSet::new();
        watching.spawn(history.clone().record(objects.clone()));
        Ok(Self {
            sandbox,
            listening,
            objects,
            history,
            _watching: watching,
        })
    }

    /// Lists all objects.
    pub(crate) async fn list(&self) -> Result<Vec<Value>> {
        let list = self.objects.list(&ListParams::default()).await?;
        let values = list.items.iter().map(serde_json::to_value);
        values
            .collect::<Result<_, _>>()
            .context("cannot serialize objects")
    }

    pub(crate) async fn shutdown(self) {
        self.listening.shutdown().await;
        self.sandbox.shutdown().await;
    }
}

/// All watched versions of all objects. Clones share the history.
#[derive(Debug, Clone, Default)]
pub(crate) struct History(Arc<Mutex<HashMap<(String, String), Value>>>);

impl History {
    pub(crate) fn version(&self, uid: &str, version: &str) -> Option<Value> {
        let key = (uid.to_owned(), version.to_owned());
        self.lock().get(&key).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, object: &DynamicObject) {
        let metadata = &object.metadata;
        if let (Some(uid), Some(version), Ok(value)) = (
            metadata.uid.clone(),
            metadata.resource_version.clone(),
            serde_json::to_value(object),
        ) {
            self.add(&uid, &version, value);
        }
    }

    pub(crate) fn add(&self, uid: &str, version: &str, object: Value) {
        let key = (uid.to_owned(), version.to_owned());
        self.lock().insert(key, object);
    }

    /// Records all versions until it is dropped. Versions lost by compaction are missing, and not
    /// checked.
    async fn record(self, objects: Api<DynamicObject>) {
        'listing: loop {
            let Ok(list) = objects.list(&ListParams::default()).await else {
                // After a shutdown, requests fail immediately: without a delay, the task could not
                // be cancelled.
                sleep(Duration::from_millis(10)).await;
                continue;
            };
            for object in &list.items {
                self.store(object);
            }
            let mut version = list.metadata.resource_version.unwrap_or_default();
            while let Ok(stream) = objects.watch(&WatchParams::default(), &version).await {
                let mut stream = stream.boxed();
                while let Ok(Some(event)) = stream.try_next().await {
                    match event {
                        WatchEvent::Added(object)
                        | WatchEvent::Modified(object)
                        | WatchEvent::Deleted(object) => {
                            self.store(&object);
                            version = object.metadata.resource_version.unwrap_or(version);
                        }
                        WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                        // The version may be compacted: a new watch of it would fail as well.
                        WatchEvent::Error(_) => continue 'listing,
                    }
                }
            }
        }
    }
}
