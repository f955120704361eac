//! The verb `create`.

use std::sync::Arc;

use kopf_sandbox_kinds::conform;
use kopf_sandbox_kinds::conversion;
use kopf_sandbox_kinds::managers;
use kopf_sandbox_kinds::strategy::{self, Generation, Strategy};
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::{Admission, Call, Payload, Tracking, incoming, validation};
use crate::admission::Operation;
use crate::cluster::Cluster;
use crate::cluster::quotas::Refused;
use crate::cluster::signing;
use crate::request::decode::Decoded;
use crate::status::{ApiError, Reason, Result};
use crate::store::{Expect, Key, Unexpected};

/// Maximum number of generated names that are tried.
const NAME_ATTEMPTS: usize = 8;

impl Cluster {
    /// Creates the object in the body.
    pub async fn create(&self, call: &Call, mut decoded: Decoded, body: &[u8]) -> Result<Payload> {
        let object = Self::received(call, &mut decoded, body, true)?;
        let generated = meta::text(&object, "name").is_none();
        let attempts = if generated { NAME_ATTEMPTS } else { 1 };
        for _ in 0..attempts {
            match self
                .try_create(call, object.clone(), Tracking::Update)
                .await
            {
                Err(error) if error.is(Reason::AlreadyExists) && generated => {}
                done => return done,
            }
        }
        Err(ApiError::already_exists(
            &call.kind,
            meta::text(&object, "generateName").unwrap_or_default(),
        ))
    }

    /// Returns the object of a request, conformed to its kind and with the namespace of the call.
    pub fn received(
        call: &Call,
        decoded: &mut Decoded,
        body: &[u8],
        is_new: bool,
    ) -> Result<Value> {
        let mut object = std::mem::take(&mut decoded.value);
        incoming::identify(call, &mut object, body)?;
        managers::keep_reset(&call.kind, &mut object);
        if is_new {
            drop_status(call, &mut object)?;
        }
        let unknown = conform::conform(&call.kind, &call.version, &mut object)
            .map_err(|mismatch| ApiError::mistyped(&call.kind, &call.version, &mismatch))?;
        incoming::report(call, decoded, &unknown, body)?;
        incoming::place(call, &mut object)?;
        Ok(object)
    }

    /// Passes the body of a created subresource, such as an Eviction, through admission. Returns it
    /// as changed, and the call without further admission.
    pub async fn admitted(&self, call: &Call, body: Value) -> Result<(Value, Call)> {
        let options = create_options(call);
        let body = self
            .admit_mutating(call, Operation::Create, Some(body), None, &options)
            .await?
            .unwrap_or_default();
        self.admit_validating(call, Operation::Create, Some(&body), None, &options)
            .await?;
        let mut call = call.about(call.namespace.as_deref(), &call.name);
        call.admission = Admission::Done;
        Ok((body, call))
    }

    /// Creates a conformed object.
    pub(crate) async fn try_create(
        &self,
        call: &Call,
        mut object: Value,
        tracking: Tracking,
    ) -> Result<Payload> {
        let given = meta::name(&object).to_owned();
        let version = meta::text(&object, "resourceVersion");
        let has_version = tracking == Tracking::Update && version.is_some_and(|given| given != "0");
        if let Some(namespace) = &call.namespace {
            self.check_namespace(&call.kind, namespace, &given)?;
        }
        Self::check_crd_accepts(&call.kind, &given)?;

        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            meta::metadata(&mut object).remove(field);
        }
        (Strategy::of(&call.kind).default_new)(&mut object);
        if tracking == Tracking::Update {
            let tracker = call.tracker(self.clock.seconds())?;
            tracker.update(None, &mut object, &call.manager());
        }

        self.plug_in(call, &mut object)?;
        let options = create_options(call);
        let unnamed = call.about(call.namespace.as_deref(), &given);
        let mut object = self
            .admit_mutating(&unnamed, Operation::Create, Some(object), None, &options)
            .await?
            .unwrap_or_default();
        if !self.webhooks().is_empty() {
            drop_status(call, &mut object)?;
            object = self.after_admission(call, object)?;
            incoming::place(call, &mut object)?;
        }
        incoming::deduplicate_owners(call, &mut object);
        self.generate_name(&mut object);
        self.fill_in(&call.kind, &mut object);
        signing::fill_in(call, &mut object);
        let name = meta::name(&object).to_owned();
        let named = call.about(call.namespace.as_deref(), &name);
        let _reserved = self.assign_addresses(call, &mut object, None)?;
        validation::validate(call, &object, None)?;
        self.check_escalation(call, &object, None)?;
        self.check_certificate_rights(call, &object, None)?;
        self.check_plugins(call, &object, None)?;
        self.admit_validating(&named, Operation::Create, Some(&object), None, &options)
            .await?;

        if call.options.dry_run {
            self.check_absent(call, &name, &object)?;
            return Ok(Payload::Object(object));
        }
        // As on a real server, the version is checked when the object is stored.
        if has_version {
            return Err(ApiError::without_reason(
                500,
                "resourceVersion should not be set on objects to be created",
            ));
        }
        self.store_new(call, &name, object).await
    }

    /// Rejects the creation of an existing object, or of one beyond its quota.
    fn check_absent(&self, call: &Call, name: &str, object: &Value) -> Result<()> {
        let key = Key::new(call.namespace.as_deref(), name);
        let collection = crate::cluster::collection(&call.kind);
        if self.store.get(&collection, &key).is_some() {
            return Err(ApiError::already_exists(&call.kind, name));
        }
        let checked = self.check_quotas(&call.kind, &key, Expect::Absent, object);
        checked.map_err(|why| ApiError::forbidden(&call.kind, name, &why))
    }

    async fn store_new(&self, call: &Call, name: &str, object: Value) -> Result<Payload> {
        let stored_form = self.to_storage(call, object).await?;
        let key = Key::new(call.namespace.as_deref(), meta::name(&stored_form));
        let kind = call.kind_for_storage(self);
        let written = self.put_limited(&kind, &key, Expect::Absent, stored_form);
        written
            .map(Payload::Stored)
            .map_err(|refused| match refused {
                Refused::OverQuota(why) => ApiError::forbidden(&call.kind, name, &why),
                Refused::Unexpected(Unexpected::TooLarge) => ApiError::object_too_large(),
                Refused::Unexpected(Unexpected::NoParent) => self.no_parent(&call.kind, &key),
                Refused::Unexpected(Unexpected::Exists | Unexpected::Changed) => {
                    ApiError::already_exists(&call.kind, name)
                }
            })
    }

    /// Sets a name from `generateName`.
    fn generate_name(&self, object: &mut Value) {
        if meta::name(object).is_empty()
            && let Some(prefix) = meta::text(object, "generateName")
        {
            // The real server truncates the prefix so that the name has at most 63 characters.
            let suffix = self.ids.suffix();
            let name: String = prefix.chars().take(58).chain(suffix.chars()).collect();
            meta::set(object, "name", name);
        }
    }

    /// Sets the server-controlled fields of a new object.
    fn fill_in(&self, kind: &Kind, object: &mut Value) {
        let uid = self.ids.uid();
        let now = self.clock.seconds();
        {
            let metadata = meta::metadata(object);
            for field in [
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "selfLink",
                "resourceVersion",
            ] {
                metadata.remove(field);
            }
            metadata.insert("uid".to_owned(), Value::String(uid));
            metadata.insert("creationTimestamp".to_owned(), Value::String(now));
            if Strategy::of(kind).generation == Generation::None {
                metadata.remove("generation");
            } else {
                metadata.insert("generation".to_owned(), json!(1));
            }
        }
        (Strategy::of(kind).complete_new)(object);
    }

    /// Conforms an object to its kind after webhooks changed it.
    pub(crate) fn after_admission(&self, call: &Call, mut object: Value) -> Result<Value> {
        if !self.webhooks().is_empty() {
            conform::conform(&call.kind, &call.version, &mut object)
                .map_err(|mismatch| ApiError::internal(mismatch.text))?;
        }
        Ok(object)
    }

    /// Converts an object of the call's version to the storage version of its kind.
    pub(crate) async fn to_storage(&self, call: &Call, mut object: Value) -> Result<Value> {
        let kind = call.kind_for_storage(self);
        if kind.conversion_webhook.is_some() {
            return self.converted(&kind, object, &kind.storage_version).await;
        }
        let version = Arc::clone(&kind.storage_version);
        conversion::convert(&mut object, &call.kind, &call.version, &kind, &version);
        Ok(object)
    }
}

impl Call {
    /// Returns the kind under which the objects are stored: for events, that of the core group.
    pub(crate) fn kind_for_storage(&self, cluster: &Cluster) -> Arc<Kind> {
        if &*self.kind.group == "events.k8s.io"
            && let Some(core) = cluster.built_in("", "events")
        {
            return core;
        }
        Arc::clone(&self.kind)
    }
}

/// Drops the status of a new object, if it has a status subresource.
fn drop_status(call: &Call, object: &mut Value) -> Result<()> {
    if strategy::status_is_separate(call.kind_version()?)
        && Strategy::of(&call.kind).drops_new_status
        && let Some(map) = object.as_object_mut()
    {
        map.remove("status");
    }
    Ok(())
}

/// Returns the `CreateOptions` of a call.
fn create_options(call: &Call) -> Value {
    json!({
        "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1",
        "fieldManager": call.options.field_manager, "dryRun": dry_run(call),
        "fieldValidation": validation(call),
    })
}

pub(crate) fn dry_run(call: &Call) -> Value {
    if call.options.dry_run {
        json!(["All"])
    } else {
        Value::Null
    }
}

pub fn validation(call: &Call) -> Value {
    use crate::request::options::FieldValidation;
    match call.options.field_validation {
        FieldValidation::Strict => json!("Strict"),
        FieldValidation::Ignore => json!("Ignore"),
        FieldValidation::Warn => Value::Null,
    }
}
