//! Requests that read and change a peering object.

use std::fmt;
use std::sync::Arc;

use kopf_client::patching::{PatchKind, Target};
use kopf_client::{Client, Error};
use kopf_core::peering::{Peer, removing, touching};
use kopf_core::resource::Resource;
use serde_json::{Value, json};

/// A peering object: its status has one record per operator.
#[derive(Debug, Clone)]
pub(super) struct PeeringObject {
    pub(super) client: Client,
    pub(super) resource: Arc<Resource>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl PeeringObject {
    /// Writes or renews a record. Returns `false` if the object does not exist.
    pub(super) async fn touch(&self, peer: &Peer) -> Result<bool, Error> {
        Ok(self.exchange(peer).await?.is_some())
    }

    /// Writes or renews a record. Returns all records, or `None` if the object does not exist.
    pub(super) async fn exchange(&self, peer: &Peer) -> Result<Option<Value>, Error> {
        self.patch(&touching(peer)).await
    }

    /// Returns all records, or `None` if the object does not exist. Sends an empty patch, because
    /// operators may lack the permission to get single objects.
    pub(super) async fn records(&self) -> Result<Option<Value>, Error> {
        self.patch(&json!({"status": {}})).await
    }

    /// Removes records. Returns `false` if the object does not exist.
    pub(super) async fn remove<'a>(
        &self,
        identities: impl IntoIterator<Item = &'a str>,
    ) -> Result<bool, Error> {
        Ok(self.patch(&removing(identities)).await?.is_some())
    }

    async fn patch(&self, payload: &Value) -> Result<Option<Value>, Error> {
        let subresource = self.resource.has_status().then_some("status");
        let target = Target {
            client: &self.client,
            resource: &self.resource,
            namespace: self.namespace.as_deref(),
            name: &self.name,
            uid: None,
        };
        let response = target.patch(subresource, PatchKind::Merge, payload).await?;
        Ok(response.map(|response| response.part().status().clone()))
    }
}

/// `'default' in 'ns'`, as in the original's logs.
impl fmt::Display for PeeringObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "'{}' in '{namespace}'", self.name),
            None => write!(f, "'{}' cluster-wide", self.name),
        }
    }
}
