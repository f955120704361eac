//! `update`, and all other ways in which an existing object changes.

use serde_json::{Value, json};

use super::create::{dry_run, validation};
use super::get::parse_version;
use super::{Call, Payload, conform, incoming, prepare};
use crate::admission::Operation;
use crate::cluster::garbage::is_finished;
use crate::cluster::{Cluster, collection};
use crate::field_error::FieldError;
use crate::kinds::{KindVersion, strategy};
use crate::object::meta;
use crate::request::decode::Decoded;
use crate::status::{ApiError, Result};
use crate::store::{Expect, Stored};

/// How often a change without a version of its own is tried on newer and newer states.
const ATTEMPTS: usize = 16;

impl Cluster {
    /// Replaces an object by the one in the body.
    pub(crate) async fn update(
        &self,
        call: &Call,
        mut decoded: Decoded,
        body: &[u8],
    ) -> Result<Payload> {
        let mut object = std::mem::take(&mut decoded.value);
        incoming::identify(call, &mut object, body)?;
        let unknown = conform::conform(&call.kind, &call.version, &mut object)
            .map_err(|mismatch| conform::refused(&call.kind, &call.version, &mismatch))?;
        incoming::report(call, &decoded, &unknown)?;
        incoming::place(call, &mut object)?;
        incoming::name(call, &mut object)?;
        self.change(call, |_| Ok(object.clone())).await
    }

    /// Changes an object to what `produce` makes of its present state (both in the version of the call).
    ///
    /// If somebody else changes the object at the same time, `produce` runs again on the newer state, unless
    /// what it produced names the version that it is meant for.
    pub(crate) async fn change<F>(&self, call: &Call, produce: F) -> Result<Payload>
    where
        F: Fn(&Value) -> Result<Value> + Send + Sync,
    {
        let collection = collection(&call.kind);
        for _ in 0..ATTEMPTS {
            let stored = self
                .store
                .get(&collection, &call.key())
                .ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
            let current = Self::object(&stored, &call.kind, &call.version);
            let new = produce(&current)?;
            if let Some(payload) = self.try_change(call, &stored, &current, new).await? {
                return Ok(payload);
            }
        }
        Err(ApiError::modified(&call.kind, &call.name))
    }

    /// One attempt. `None`: the object has changed meanwhile.
    async fn try_change(
        &self,
        call: &Call,
        stored: &std::sync::Arc<Stored>,
        current: &Value,
        mut new: Value,
    ) -> Result<Option<Payload>> {
        check_version(call, stored, &new)?;
        if !call.is_patch {
            check_uid(call, current, &new)?;
        }
        let version = call.kind_version()?;
        split(call, version, current, &mut new);
        keep_system_fields(current, &mut new);
        prepare::on_update(&call.kind, current, &mut new);
        count_generation(call, version, current, &mut new);

        let options = json!({
            "kind": if call.is_patch { "PatchOptions" } else { "UpdateOptions" },
            "apiVersion": "meta.k8s.io/v1",
            "fieldManager": call.options.field_manager, "dryRun": dry_run(call),
            "fieldValidation": validation(call),
        });
        let new = self
            .admit_mutating(call, Operation::Update, Some(new), Some(current), &options)
            .await?
            .unwrap_or_default();
        let mut new = self.after_admission(call, new)?;
        keep_system_fields(current, &mut new);
        count_generation(call, version, current, &mut new);
        prepare::validate(call, &new, Some(current))?;
        self.admit_validating(call, Operation::Update, Some(&new), Some(current), &options)
            .await?;

        if call.options.dry_run {
            return Ok(Some(Payload::Object(new)));
        }
        if is_finished(&call.kind, &new) {
            let mut last = new;
            self.to_storage(call, &mut last);
            let removed = self.remove(&stored.kind, &stored.key, stored.revision, last);
            return Ok(removed.ok().map(Payload::Stored));
        }
        if new == *current {
            return Ok(Some(Payload::Stored(std::sync::Arc::clone(stored))));
        }
        self.to_storage(call, &mut new);
        let expect = Expect::Revision(stored.revision);
        let kind = call.kind_for_storage(self);
        Ok(self
            .put(&kind, &stored.key, expect, new)
            .ok()
            .map(Payload::Stored))
    }
}

fn check_version(call: &Call, stored: &Stored, new: &Value) -> Result<()> {
    match meta::text(new, "resourceVersion").filter(|version| *version != "0") {
        Some(version) => {
            if parse_version(version).map_err(|_| bad_version(call, version))? == stored.revision {
                Ok(())
            } else {
                Err(ApiError::modified(&call.kind, &call.name))
            }
        }
        None if strategy::allows_unconditional_update(&call.kind) => Ok(()),
        None => {
            let error = FieldError::invalid(
                "metadata.resourceVersion",
                &json!(0),
                "must be specified for an update",
            );
            Err(ApiError::invalid_resource(&call.kind, &call.name, &[error]))
        }
    }
}

fn bad_version(call: &Call, version: &str) -> ApiError {
    let error = FieldError::invalid(
        "metadata.resourceVersion",
        &json!(version),
        &format!("strconv.ParseUint: parsing {version:?}: invalid syntax"),
    );
    ApiError::invalid(&call.kind, &call.name, &[error])
}

fn check_uid(call: &Call, current: &Value, new: &Value) -> Result<()> {
    match meta::text(new, "uid") {
        Some(uid) if uid != meta::uid(current) => Err(ApiError::conflict(
            &call.kind,
            &call.name,
            &format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                meta::uid(current)
            ),
        )),
        _ => Ok(()),
    }
}

/// Takes from `new` only what this endpoint may change: the status, or everything but the status.
fn split(call: &Call, version: &KindVersion, current: &Value, new: &mut Value) {
    if call.is_status() {
        let status = new.get("status").cloned();
        let metadata = new.get("metadata").cloned();
        let mut merged = current.clone();
        if let Some(map) = merged.as_object_mut() {
            match status {
                Some(status) => map.insert("status".to_owned(), status),
                None => map.remove("status"),
            };
            // Custom resources keep all of their metadata; built-in kinds only what is the specification's.
            if !call.kind.is_custom()
                && let Some(metadata) = metadata
            {
                map.insert("metadata".to_owned(), metadata);
            }
        }
        if !call.kind.is_custom() && matches!(&*call.kind.group, "apps" | "batch" | "policy") {
            meta::carry_over(&mut merged, current, "labels");
        }
        *new = merged;
    } else if strategy::status_is_separate(version)
        && let Some(map) = new.as_object_mut()
    {
        match current.get("status") {
            Some(status) => map.insert("status".to_owned(), status.clone()),
            None => map.remove("status"),
        };
    }
}

/// Restores what clients can't change, as the real server does without complaint.
fn keep_system_fields(current: &Value, new: &mut Value) {
    for field in ["creationTimestamp", "generation", "resourceVersion"] {
        meta::carry_over(new, current, field);
    }
    if meta::uid(new).is_empty() {
        meta::carry_over(new, current, "uid");
    }
    if meta::is_terminating(current) {
        meta::carry_over(new, current, "deletionTimestamp");
        meta::carry_over(new, current, "deletionGracePeriodSeconds");
    }
    let metadata = meta::metadata(new);
    metadata.remove("selfLink");
    metadata.remove("managedFields");
}

/// Counts a change of the specification.
fn count_generation(call: &Call, version: &KindVersion, current: &Value, new: &mut Value) {
    if call.is_status() || !strategy::has_generation(&call.kind) {
        return;
    }
    let separate = strategy::status_is_separate(version);
    let specified = |object: &Value| -> serde_json::Map<String, Value> {
        let mut map = object.as_object().cloned().unwrap_or_default();
        map.remove("metadata");
        if separate {
            map.remove("status");
        }
        map
    };
    let before = meta::generation(current);
    let changed = specified(current) != specified(new);
    let generation = if changed { before + 1 } else { before };
    meta::metadata(new).insert("generation".to_owned(), json!(generation));
}
