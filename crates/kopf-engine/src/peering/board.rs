//! A peering object, as one writes to it.

use std::fmt;
use std::sync::Arc;

use kopf_client::patching::{PatchKind, Target};
use kopf_client::{Client, Error};
use kopf_core::peering::{Peer, removing, touching};
use kopf_core::resource::Resource;
use serde_json::{Value, json};

/// Where operators leave records of themselves.
#[derive(Debug, Clone)]
pub(super) struct Board {
    pub(super) client: Client,
    pub(super) resource: Arc<Resource>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl Board {
    /// Leaves or renews a record. Whether there is such an object.
    pub(super) async fn touch(&self, peer: &Peer) -> Result<bool, Error> {
        Ok(self.exchange(peer).await?.is_some())
    }

    /// Leaves or renews a record. All records after that, if there is such an object.
    pub(super) async fn exchange(&self, peer: &Peer) -> Result<Option<Value>, Error> {
        self.patch(&touching(peer)).await
    }

    /// All records, if there is such an object. By a patch of nothing: operators need not be permitted to
    /// get single objects.
    pub(super) async fn look(&self) -> Result<Option<Value>, Error> {
        self.patch(&json!({"status": {}})).await
    }

    /// Removes records. Whether there is such an object.
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
        };
        let answer = target.patch(subresource, PatchKind::Merge, payload).await?;
        Ok(answer.map(|answer| answer.part().status().clone()))
    }
}

/// `'default' in 'ns'`, as in the original's logs.
impl fmt::Display for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "'{}' in '{namespace}'", self.name),
            None => write!(f, "'{}' cluster-wide", self.name),
        }
    }
}
