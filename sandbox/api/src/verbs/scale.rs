//! The `scale` subresource, for all kinds.

use serde_json::Value;

use super::patch::{Patch, PatchType};
use super::{Call, Payload};
use crate::cluster::{Cluster, collection};
use crate::scale::{checked_replicas, scale_of, set_replicas};
use crate::status::{ApiError, Result};

impl Cluster {
    /// Returns the scale of the object of the call.
    pub(crate) async fn get_scale(&self, call: &Call) -> Result<Payload> {
        let stored = self
            .store
            .get(&collection(&call.kind), &call.key())
            .ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
        let stored = self.in_version(&stored, &call.kind, &call.version).await?;
        let object = Self::object(&stored, &call.kind, &call.version);
        Ok(Payload::Document(scale_of(call, &object)?))
    }

    /// Applies a patch to the scale.
    pub(crate) async fn patch_scale(
        &self,
        call: &Call,
        patch_type: PatchType,
        body: &[u8],
    ) -> Result<Payload> {
        let patch = Patch::read(patch_type, body)?;
        self.change_scale(call, |scale| match &patch {
            Patch::Json(patch) => Ok(patch.apply(scale)?),
            // A scale has no lists: a strategic merge equals a plain merge.
            Patch::Merge(patch) | Patch::Strategic(patch) => {
                Ok(kopf_sandbox_schema::patch::merge::apply(scale, patch)?)
            }
        })
        .await
    }

    /// Changes the number of replicas: `produce` returns the new scale for the current one.
    pub(crate) async fn change_scale<F>(&self, call: &Call, produce: F) -> Result<Payload>
    where
        F: Fn(&Value) -> Result<Value> + Send + Sync,
    {
        let changed = self
            .change(call, |current| {
                let before = scale_of(call, current)?;
                let scale = produce(&before)?;
                let replicas = checked_replicas(call, current, &scale)?;
                let mut object = current.clone();
                set_replicas(call, &mut object, replicas.into())?;
                Ok(object)
            })
            .await?;
        let object = match self.presented(call, changed).await? {
            Payload::Stored(stored) => Self::object(&stored, &call.kind, &call.version),
            Payload::Object(object) | Payload::Document(object) => object,
        };
        Ok(Payload::Document(scale_of(call, &object)?))
    }
}
