//! The verb `get`.

use super::{Call, Payload};
use crate::call::parse_version;
use crate::cluster::{Cluster, collection};
use crate::status::{ApiError, Result};

impl Cluster {
    /// Returns the object of the call.
    pub fn get(&self, call: &Call) -> Result<Payload> {
        if let Some(version) = &call.options.resource_version {
            self.check_not_too_new(version)?;
        }
        self.store
            .get(&collection(&call.kind), &call.key())
            .map(Payload::Stored)
            .ok_or_else(|| ApiError::not_found(&call.kind, &call.name))
    }

    /// Returns the payload with its object in the version of the call.
    pub(crate) async fn presented(&self, call: &Call, payload: Payload) -> Result<Payload> {
        let Payload::Stored(stored) = payload else {
            return Ok(payload);
        };
        let presented = self.in_version(&stored, &call.kind, &call.version).await?;
        Ok(Payload::Stored(presented))
    }

    /// Rejects a future resource version, as a real server does after waiting for it.
    pub(crate) fn check_not_too_new(&self, version: &str) -> Result<u64> {
        let wanted = parse_version(version)?;
        let present = self.store.revision();
        if wanted > present {
            let error = ApiError::timeout(
                format!("Too large resource version: {wanted}, current: {present}"),
                1,
            );
            return Err(error.with_causes(serde_json::json!([{
                "reason": "ResourceVersionTooLarge",
                "message": "Too large resource version",
            }])));
        }
        Ok(wanted)
    }
}
