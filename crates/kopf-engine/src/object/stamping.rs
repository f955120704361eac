//! Changes that come with own writes: an admission webhook that sets a field of the spec in each
//! request makes every write of the operator an update to be handled.

use std::time::Duration;

use kopf_client::patching::PatchResponse;
use kopf_core::body::{Body, ManagedFields};
use kopf_core::diff::Diff;
use kopf_core::field::FieldPath;
use kopf_core::managers::manager_of;
use kopf_core::patch::{Patch, PatchFn};
use kopf_core::wording;
use serde_json::Value;

use super::driver::Driver;
use crate::logger::ObjectLogger;

/// A change that came with an own write.
#[derive(Debug)]
pub(super) struct Stamp {
    /// The version that the write has created.
    version: Box<str>,
    field: FieldPath,
    manager: Option<String>,
    is_confirmed: bool,
}

/// The fields that a write changes, except those that are not tracked.
#[derive(Debug)]
pub(super) struct Intent(Value);

impl Intent {
    /// Returns the intent of a patch; `None` if it cannot be known, because of functions of users.
    pub(super) fn of(patch: &Patch) -> Option<Self> {
        let mut fns = patch.fns.iter();
        if fns.any(PatchFn::is_repeated_after_conflict) {
            return None;
        }
        let fields = patch.merge.iter();
        let tracked = fields.filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status"));
        let tracked = tracked.map(|(key, value)| (key.clone(), value.clone()));
        Some(Self(Value::Object(tracked.collect())))
    }
}

impl Driver {
    /// Looks for changes in the response to a write that the write did not contain.
    pub(super) fn detect_stamp(
        &mut self,
        response: &PatchResponse,
        intent: Option<&Intent>,
        before: &Body,
    ) {
        let found = intent.and_then(|intent| self.stamp_of(response, intent, before));
        self.origins.stamp = found;
        if self.origins.stamp.is_none() {
            self.machine.clear_stamps();
        }
    }

    fn stamp_of(&self, response: &PatchResponse, intent: &Intent, before: &Body) -> Option<Stamp> {
        let generation = |body: &Body| body.metadata().get("generation")?.as_i64();
        // Most writes change metadata and the status only, and need no comparison.
        if generation(before)? == generation(response.part())? {
            return None;
        }
        let after = response.body_with(ManagedFields::Keep).ok()?;
        let expected = Patch {
            merge: intent.0.as_object()?.clone(),
            fns: Vec::new(),
        };
        let expected = Body::new(expected.merged_into(before.value().clone()));
        let essence = |body: &Body| self.context.essence(body).ok().map(std::sync::Arc::new);
        let diff = Diff::between(essence(&expected), essence(&after));
        let is_metadata = |path: &FieldPath| {
            path.steps()
                .first()
                .is_some_and(|step| &**step == "metadata")
        };
        let mut paths = diff.iter().map(|item| &item.field);
        let field = paths.find(|path| !is_metadata(path))?.clone();
        let managed = after.metadata().get("managedFields");
        let manager = managed.and_then(|managed| manager_of(managed, &field));
        Some(Stamp {
            version: after.resource_version()?.into(),
            manager: manager.map(str::to_owned),
            field,
            is_confirmed: false,
        })
    }

    /// Compares an arriving version with that of the last write. If another one arrives first,
    /// another client has made the change.
    pub(super) fn confirm_stamp(&mut self, version: &str) {
        let now = self.context.now();
        match &mut self.origins.stamp {
            Some(stamp) if stamp.is_confirmed => {}
            Some(stamp) if *stamp.version == *version => {
                stamp.is_confirmed = true;
                self.machine.note_stamp(now);
            }
            Some(_) => {
                self.origins.stamp = None;
                self.machine.clear_stamps();
            }
            None => {}
        }
    }

    pub(super) fn log_stamp(&self, logger: &ObjectLogger, delay: Duration) {
        if let Some(stamp) = &self.origins.stamp {
            let field = stamp.field.to_string();
            logger.warning(wording::stamped(&field, stamp.manager.as_deref(), delay));
        }
    }
}
