//! The verb `update`, and the common path of all changes of existing objects.

use kopf_sandbox_kinds::managers;
use kopf_sandbox_kinds::strategy::{self, Generation, Strategy};
use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::kind::KindVersion;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::create::{dry_run, validation};
use super::pod_parts::PodPart;
use super::{Call, Payload, Tracking, incoming, validation};
use crate::admission::Operation;
use crate::call::parse_version;
use crate::cluster::garbage::is_finished;
use crate::cluster::quotas::Refused;
use crate::cluster::signing;
use crate::cluster::{Cluster, collection};
use crate::request::decode::Decoded;
use crate::status::{ApiError, Result};
use crate::store::{Expect, Stored, Unexpected};

/// Maximum number of attempts of a change without a resource version.
const ATTEMPTS: usize = 16;
/// Maximum rounds of conversions for the field managers of one write: one for the live object,
/// others for results.
const CONVERSION_ROUNDS: usize = 4;

impl Cluster {
    /// Replaces an object by the one in the body, or creates it where its kind allows that. Returns
    /// the status code as well.
    pub async fn update(
        &self,
        call: &Call,
        mut decoded: Decoded,
        body: &[u8],
    ) -> Result<(u16, Payload)> {
        let creates = Strategy::of(&call.kind).creates_on_update
            && meta::text(&decoded.value, "resourceVersion").is_none()
            && meta::text(&decoded.value, "uid").is_none()
            && call.subresource.is_none()
            && self
                .store
                .get(&collection(&call.kind), &call.key())
                .is_none();
        let mut object = Self::received(call, &mut decoded, body, creates)?;
        incoming::name(call, &mut object)?;
        if creates {
            return Ok((201, self.try_create(call, object, Tracking::Update).await?));
        }
        Ok((200, self.change(call, |_| Ok(object.clone())).await?))
    }

    /// Changes an object to the result of `produce` for its current state (both in the version of
    /// the call).
    ///
    /// On a concurrent change, `produce` runs again on the newer state, unless its result has a
    /// resource version.
    pub async fn change<F>(&self, call: &Call, produce: F) -> Result<Payload>
    where
        F: Fn(&Value) -> Result<Value> + Send + Sync,
    {
        self.change_tracked(call, Tracking::Update, produce).await
    }

    /// Changes an object whose managers may have been recorded by `produce`.
    pub(crate) async fn change_tracked<F>(
        &self,
        call: &Call,
        tracking: Tracking,
        produce: F,
    ) -> Result<Payload>
    where
        F: Fn(&Value) -> Result<Value> + Send + Sync,
    {
        let collection = collection(&call.kind);
        for _ in 0..ATTEMPTS {
            let stored = self
                .store
                .get(&collection, &call.key())
                .ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
            let seen = self.in_version(&stored, &call.kind, &call.version).await?;
            let current = Self::object(&seen, &call.kind, &call.version);
            let new = self.produced(call, tracking, &current, &produce).await?;
            if let Some(payload) = self.try_change(call, &stored, &current, new).await? {
                return Ok(payload);
            }
        }
        Err(ApiError::modified(&call.kind, &call.name))
    }

    /// Returns the result of `produce` for the current state, with its field managers.
    async fn produced<F>(
        &self,
        call: &Call,
        tracking: Tracking,
        current: &Value,
        produce: &F,
    ) -> Result<Value>
    where
        F: Fn(&Value) -> Result<Value> + Send + Sync,
    {
        let attempt = || {
            let mut new = produce(current)?;
            if tracking == Tracking::Update {
                let tracker = call.tracker(self.clock.seconds())?;
                tracker.update(Some(current), &mut new, &call.manager());
            }
            Ok(new)
        };
        call.conversions.clear();
        let mut outcome = attempt();
        // Fields of managers with other versions are compared in those, which are determined by the
        // first attempt.
        for _ in 0..CONVERSION_ROUNDS {
            let missing = call.conversions.take_missing();
            if missing.is_empty() {
                break;
            }
            for (object, version) in missing {
                let converted = self.converted(&call.kind, object.clone(), &version).await?;
                call.conversions.add(object, version, converted);
            }
            outcome = attempt();
        }
        outcome
    }

    /// Attempts a change once. `None` if the object was changed meanwhile.
    async fn try_change(
        &self,
        call: &Call,
        stored: &std::sync::Arc<Stored>,
        current: &Value,
        new: Value,
    ) -> Result<Option<Payload>> {
        check_version(call, stored, &new)?;
        if !call.is_patch {
            check_uid(call, current, &new)?;
        }
        let version = call.kind_version()?;
        let options = update_options(call);
        let new = self
            .admit_mutating(call, Operation::Update, Some(new), Some(current), &options)
            .await?
            .unwrap_or_default();
        let mut new = self.after_admission(call, new)?;
        incoming::deduplicate_owners(call, &mut new);
        // After the webhooks: their changes belong to the manager of the request.
        let managed = meta::metadata(&mut new).remove("managedFields");
        split(call, version, current, &mut new);
        signing::restrict(call, current, &mut new, &self.clock.seconds());
        keep_system_fields(current, &mut new);
        set_managed(&mut new, managed);
        if !call.is_status() {
            let subresource = call.subresource.as_deref();
            (Strategy::of(&call.kind).complete_changed)(subresource, current, &mut new);
        }
        let _reserved = self.assign_addresses(call, &mut new, Some(current))?;
        count_generation(call, version, current, &mut new);
        managers::keep_times(current, &mut new);
        validation::validate(call, &new, Some(current))?;
        self.check_escalation(call, &new, Some(current))?;
        self.check_certificate_rights(call, &new, Some(current))?;
        self.check_plugins(call, &new, Some(current))?;
        self.admit_validating(call, Operation::Update, Some(&new), Some(current), &options)
            .await?;

        if call.options.dry_run {
            let expect = Expect::Revision(stored.revision);
            self.check_quotas(&call.kind, &stored.key, expect, &new)
                .map_err(|why| ApiError::forbidden(&call.kind, &call.name, &why))?;
            return Ok(Some(Payload::Object(new)));
        }
        if is_finished(&call.kind, &new) {
            let last = self.to_storage(call, new).await?;
            let removed = self.remove(&stored.kind, &stored.key, stored.revision, last);
            return Ok(removed.ok().map(Payload::Stored));
        }
        // After a change of the storage version, unchanged objects are written as well: this
        // migrates them.
        let kind = call.kind_for_storage(self);
        if new == *current && stored.version == kind.storage_version {
            return Ok(Some(Payload::Stored(std::sync::Arc::clone(stored))));
        }
        let new = self.to_storage(call, new).await?;
        let expect = Expect::Revision(stored.revision);
        match self.put_limited(&kind, &stored.key, expect, new) {
            Ok(stored) => Ok(Some(Payload::Stored(stored))),
            Err(Refused::OverQuota(why)) => Err(ApiError::forbidden(&call.kind, &call.name, &why)),
            Err(Refused::Unexpected(Unexpected::TooLarge)) => Err(ApiError::object_too_large()),
            Err(Refused::Unexpected(
                Unexpected::Exists | Unexpected::Changed | Unexpected::NoParent,
            )) => Ok(None),
        }
    }
}

/// Returns the options of a request, as webhooks receive them.
fn update_options(call: &Call) -> Value {
    json!({
        "kind": if call.is_patch { "PatchOptions" } else { "UpdateOptions" },
        "apiVersion": "meta.k8s.io/v1",
        "fieldManager": call.options.field_manager, "dryRun": dry_run(call),
        "fieldValidation": validation(call),
    })
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
        None if Strategy::of(&call.kind).allows_unconditional_update => Ok(()),
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

/// Keeps only the part of `new` that this endpoint can change: the status, or everything else.
fn split(call: &Call, version: &KindVersion, current: &Value, new: &mut Value) {
    if let Some(part) = PodPart::of(call) {
        *new = part.merged(current, new);
    } else if call.is_status() {
        let status = new.get("status").cloned();
        let metadata = new.get("metadata").cloned();
        let mut merged = current.clone();
        if let Some(map) = merged.as_object_mut() {
            match status {
                Some(status) => map.insert("status".to_owned(), status),
                None => map.remove("status"),
            };
            if !Strategy::of(&call.kind).status_keeps_metadata
                && let Some(metadata) = metadata
            {
                map.insert("metadata".to_owned(), metadata);
            }
        }
        if let Some(field) = Strategy::of(&call.kind).metadata_kept_by_status {
            meta::carry_over(&mut merged, current, field);
        }
        *new = merged;
    } else if strategy::status_is_separate(version)
        && !matches!(call.subresource.as_deref(), Some("binding" | "approval"))
        && let Some(map) = new.as_object_mut()
    {
        match current.get("status") {
            Some(status) => map.insert("status".to_owned(), status.clone()),
            None => map.remove("status"),
        };
    }
}

/// Restores immutable system fields silently, as the real server does.
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
}

/// Sets the managers, which every endpoint can change.
fn set_managed(new: &mut Value, managed: Option<Value>) {
    let metadata = meta::metadata(new);
    match managed {
        Some(managed) => metadata.insert("managedFields".to_owned(), managed),
        None => metadata.remove("managedFields"),
    };
}

/// Increments the generation if the spec has changed.
fn count_generation(call: &Call, version: &KindVersion, current: &Value, new: &mut Value) {
    let counted = Strategy::of(&call.kind).generation;
    if matches!(counted, Generation::None) {
        return;
    }
    let separate = strategy::status_is_separate(version);
    let specified = |object: &Value| -> (serde_json::Map<String, Value>, Option<Value>) {
        let mut map = object.as_object().cloned().unwrap_or_default();
        let metadata = map.remove("metadata").unwrap_or_default();
        if separate {
            map.remove("status");
        }
        let beside = match counted {
            Generation::SpecAndAnnotations => metadata.get("annotations").cloned(),
            Generation::SpecAndLabels => metadata.get("labels").cloned(),
            Generation::None | Generation::Constant | Generation::Spec => None,
        };
        (map, beside)
    };
    let uncounted = call.is_status()
        || call.subresource.as_deref() == Some("binding")
        || matches!(counted, Generation::Constant);
    let before = meta::generation(current);
    let changed = !uncounted && specified(current) != specified(new);
    let generation = if changed { before + 1 } else { before };
    meta::metadata(new).insert("generation".to_owned(), json!(generation));
}
