//! Restoring of a server's state from disk.

use std::sync::Arc;

use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_store::journal::{Place, Recovered, RecoveredObject};
use serde::Deserialize;

use super::owners::mentions_owners;
use super::{Cluster, FollowUpJobs, collection, crds, parents};
use crate::store::{Key, Stored};

impl Cluster {
    /// Restores the objects of a data folder and the derived state.
    pub fn restore(&self, recovered: &Recovered) {
        // CRDs first: they define the kinds of other objects.
        for (place, object) in recovered.objects() {
            if place.collection == crds::COLLECTION {
                self.restore_object(place, object);
            }
        }
        self.read_crds();
        for (place, object) in recovered.objects() {
            if place.collection != crds::COLLECTION {
                self.restore_object(place, object);
            }
        }
        self.read_webhooks();
        self.read_rights();
        // The process may have exited after a write and before the usage was stored.
        self.recount_all();
        for (place, _) in recovered.objects() {
            self.resume(place);
        }
    }

    fn restore_object(&self, place: Place<'_>, object: &RecoveredObject) {
        let Some(kind) = self.kind_of_collection(place.collection) else {
            // The CRD was removed, and the process ended before its objects were removed.
            tracing::warn!(
                collection = place.collection,
                name = place.name,
                "an object of an unknown kind in the data folder is dropped"
            );
            return;
        };
        let key = Key::new(
            Some(place.namespace).filter(|name| !name.is_empty()),
            place.name,
        );
        let summary = Summary::of(&object.raw);
        let version = summary.api_version.rsplit('/').next().unwrap_or_default();
        let stored = Stored {
            key,
            revision: object.revision,
            born: object.born,
            terminating: summary.metadata.deletion_timestamp.is_some(),
            kind: written_by(&kind, version, object),
            version: Arc::from(version),
            raw: object.raw.clone(),
            head: object.head,
        };
        let parents = parents(&kind, stored.key.namespace());
        let key = stored.key.clone();
        self.store.restore(&collection(&kind), stored, &parents);
        self.hold_addresses(&kind, &key);
    }

    fn kind_of_collection(&self, collection: &str) -> Option<Arc<Kind>> {
        let (group, plural) = collection.split_once('/')?;
        self.kinds().by_plural(group, plural).cloned()
    }

    /// Queues the controller jobs of an object that were pending when the process ended.
    fn resume(&self, place: Place<'_>) {
        let Some(kind) = self.kind_of_collection(place.collection) else {
            return;
        };
        let namespace = Some(place.namespace).filter(|name| !name.is_empty());
        let key = Key::new(namespace, place.name);
        let collection = Arc::from(place.collection);
        let Some(stored) = self.store.get(&collection, &key) else {
            return;
        };
        if !stored.terminating && !mentions_owners(&stored.raw) {
            return; // most objects, which are not parsed
        }
        let follow_up = FollowUpJobs::of(&kind, &key, &stored.value());
        self.refresh_owners(&collection, &key);
        for job in follow_up.jobs {
            self.jobs.push(job);
        }
    }
}

/// Returns the kind by which an object was written: the current one if it would change nothing,
/// else one that makes readers apply defaults and prune.
fn written_by(kind: &Arc<Kind>, version: &str, object: &RecoveredObject) -> Arc<Kind> {
    let schema = kind
        .version(version)
        .and_then(|version| version.schema.as_ref());
    let Some(schema) = schema else {
        return Arc::clone(kind);
    };
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(&object.raw) else {
        return Arc::clone(kind);
    };
    let mut completed = value.clone();
    schema.default(&mut completed);
    schema.prune(&mut completed);
    if completed == value {
        Arc::clone(kind)
    } else {
        Arc::new(Kind::clone(kind))
    }
}

/// The fields of an object that the store keeps separately.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Summary {
    api_version: String,
    metadata: SummaryMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SummaryMetadata {
    deletion_timestamp: Option<String>,
}

impl Summary {
    fn of(raw: &[u8]) -> Self {
        serde_json::from_slice(raw).unwrap_or_default()
    }
}
