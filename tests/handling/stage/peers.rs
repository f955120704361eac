//! Peering objects, and what operators of other makes leave in them; on the sandbox only.

use jiff::SignedDuration;
use kopf_core::timestamp;
use kopf_sandbox::manifests::Manifests;
use serde_json::{Value, json};

use super::Stage;

const KINDS: &str = include_str!("../../../crates/kopf-shipping/manifests/peering.yaml");
const LEGACY_KINDS: &str =
    include_str!("../../../crates/kopf-shipping/manifests/peering-legacy.yaml");

impl Stage {
    /// Defines the kinds of peering objects, with the default ones.
    pub(crate) async fn define_peerings(&self) {
        self.load("peering.yaml", KINDS).await;
    }

    /// The same in the group of old.
    pub(crate) async fn define_legacy_peerings(&self) {
        self.load("peering-legacy.yaml", LEGACY_KINDS).await;
    }

    async fn load(&self, name: &str, text: &str) {
        let sandbox = self.api.sandbox().expect("the case is for the sandbox");
        let manifests = Manifests::parse([(name, text)]).expect("shipped manifests are valid");
        let loaded = manifests.load(sandbox).await;
        assert_eq!(loaded.expect("shipped manifests can be loaded").len(), 4);
    }

    fn peering_path(&self, group: &str, name: &str) -> String {
        let path = format!("kopfpeerings/{name}");
        self.api
            .group_path(&format!("{group}/v1"), path.trim_end_matches('/'))
    }

    /// Creates the peering object of the case's namespace.
    pub(crate) async fn create_peering(&self, name: &str) {
        self.create_peering_in("kopf.dev", name).await;
    }

    pub(crate) async fn create_peering_in(&self, group: &str, name: &str) {
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": "KopfPeering",
                            "metadata": {"name": name}});
        let path = self.peering_path(group, "");
        self.api.created(&path, &object).await;
    }

    pub(crate) async fn delete_peering(&self, name: &str) {
        let path = self.peering_path("kopf.dev", name);
        self.api.deleted(&path).await;
    }

    /// The records of the default object.
    pub(crate) async fn peers(&self) -> Value {
        self.peers_in("kopf.dev").await
    }

    pub(crate) async fn peers_in(&self, group: &str) -> Value {
        let path = self.peering_path(group, "default");
        let mut object = self.api.found(&path).await.json;
        object["status"].take()
    }

    /// The names in the records.
    pub(crate) async fn peer_names(&self) -> Vec<String> {
        let peers = self.peers().await;
        let peers = peers.as_object().cloned().unwrap_or_default();
        peers.into_iter().map(|(name, _)| name).collect()
    }

    /// Somebody of this priority is there, and was last seen so many seconds ago.
    pub(crate) async fn put_peer(&self, name: &str, priority: i64, lifetime: u64, ago: i64) {
        let lastseen = self.now() - SignedDuration::from_secs(ago);
        let record = json!({"priority": priority, "lifetime": lifetime,
                            "lastseen": timestamp::format(lastseen)});
        self.write_peer(name, record).await;
    }

    /// Nobody of this name is there any more.
    pub(crate) async fn remove_peer(&self, name: &str) {
        self.write_peer(name, Value::Null).await;
    }

    pub(crate) async fn write_peer(&self, name: &str, record: Value) {
        let patch = json!({"status": {name: record}});
        let path = self.peering_path("kopf.dev", "default");
        self.api.merged(&path, &patch).await;
    }
}
