//! What every cluster has from the beginning.

use serde_json::json;

use super::Cluster;
use crate::store::{Expect, Key};

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

impl Cluster {
    /// Creates the namespaces of a new cluster.
    pub(crate) fn bootstrap(&self) {
        let Some(kind) = self.built_in("", "namespaces") else {
            return;
        };
        for name in NAMESPACES {
            let namespace = json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": name,
                    "uid": self.ids.uid(),
                    "creationTimestamp": self.clock.seconds(),
                    "labels": { "kubernetes.io/metadata.name": name },
                },
                "spec": { "finalizers": ["kubernetes"] },
                "status": { "phase": "Active" },
            });
            // The store is new: there is nothing to collide with.
            let created = self.put(&kind, &Key::new(None, name), Expect::Absent, namespace);
            debug_assert!(created.is_ok(), "a new store is empty");
        }
        // No client has seen anything before this moment, so no watch can start earlier.
        self.store.compact();
    }
}
