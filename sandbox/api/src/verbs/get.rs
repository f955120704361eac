//! The verb `get`.

use super::{Call, Payload};
use crate::call::parse_version;
use crate::cluster::{Cluster, collection};
use crate::status::{ApiError, Result};
use crate::view;

impl Cluster {
    /// Returns the object of the call, from the cache if a version is given.
    pub async fn get(&self, call: &Call) -> Result<Payload> {
        let Some(version) = &call.options.resource_version else {
            return self.get_present(call);
        };
        let wanted = parse_version(version)?;
        let reached = call.reader.reach(&self.views, &self.store, wanted).await?;
        let Some(revision) = reached else {
            self.check_not_too_new(version)?;
            return self.get_present(call);
        };
        view::get(&self.store, &collection(&call.kind), &call.key(), revision)
            .map(Payload::Stored)
            .ok_or_else(|| ApiError::not_found(&call.kind, &call.name))
    }

    /// Returns the current object of the call.
    pub(crate) fn get_present(&self, call: &Call) -> Result<Payload> {
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
            return Err(view::too_large(wanted, present));
        }
        Ok(wanted)
    }
}
