//! The verbs `delete` and `deletecollection`.

use std::sync::Arc;
use std::time::Duration;

use kopf_sandbox_kinds::strategy::{Propagation, Strategy};
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::object::meta;
use kopf_sandbox_store::clock::rfc3339_seconds;
use serde_json::{Value, json};

use super::{Admission, Call, Payload};
use crate::admission::Operation;
use crate::cluster::garbage::{
    FOREGROUND, ORPHAN, finalizers_policy, is_finished, is_namespace, namespace_is_held,
};
use crate::cluster::{Cluster, collection, crds};
use crate::request::options::DeleteOptions;
use crate::status::{ApiError, Result};
use crate::store::{Expect, Stored};

/// Maximum number of attempts on concurrent changes.
const ATTEMPTS: usize = 16;

impl Cluster {
    /// Deletes an object, or marks it for deletion if finalizers or a grace period hold it.
    pub async fn delete(&self, call: &Call, options: DeleteOptions) -> Result<Payload> {
        warn_of_orphans(call, &options);
        let collection = collection(&call.kind);
        for _ in 0..ATTEMPTS {
            let stored = self
                .store
                .get(&collection, &call.key())
                .ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
            let seen = self.in_version(&stored, &call.kind, &call.version).await?;
            let current = Self::object(&seen, &call.kind, &call.version);
            self.check_deletion(call, &options, &stored, &current)
                .await?;
            if let Some(payload) = self.carry_out_deletion(call, &options, &stored, &current) {
                return self.deleted_in_version(call, payload).await;
            }
        }
        Err(ApiError::modified(&call.kind, &call.name))
    }

    /// Returns the payload of a deletion with its object in the version of the call.
    async fn deleted_in_version(&self, call: &Call, payload: Payload) -> Result<Payload> {
        match payload {
            Payload::Object(object) if call.kind.conversion_webhook.is_some() => {
                let converted = self.converted(&call.kind, object, &call.version).await?;
                Ok(Payload::Object(converted))
            }
            other => Ok(other),
        }
    }

    async fn check_deletion(
        &self,
        call: &Call,
        options: &DeleteOptions,
        stored: &Stored,
        current: &Value,
    ) -> Result<()> {
        check_preconditions(call, options, stored, current)?;
        Self::check_namespace_deletion(&call.kind, &call.name)?;
        let sent = sent_options(options);
        self.admit_mutating(call, Operation::Delete, None, Some(current), &sent)
            .await?;
        self.admit_validating(call, Operation::Delete, None, Some(current), &sent)
            .await
    }

    /// Deletes an object, or marks it for deletion, without calling webhooks. `current` is the
    /// object in the version of the call. `None` if it was changed meanwhile.
    pub(crate) fn carry_out_deletion(
        &self,
        call: &Call,
        options: &DeleteOptions,
        stored: &Arc<Stored>,
        current: &Value,
    ) -> Option<Payload> {
        let mut object = stored.value();
        propagate(&call.kind, options, &mut object);
        if crds::is_crd(&call.kind) {
            meta::add_finalizer(&mut object, crds::CLEANUP);
        }
        let grace = grace_period(&call.kind, current, options);
        let held = meta::finalizers(&object).next().is_some()
            || grace > 0
            || (is_namespace(&call.kind) && namespace_is_held(&object));
        if meta::is_terminating(&object) {
            shorten_grace(&mut object, grace, options, self.clock.now());
        } else {
            self.mark(&call.kind, &mut object, grace);
        }
        if options.dry_run {
            return Some(self.deleted(call, object, held));
        }
        if held && !is_finished(&call.kind, &object) {
            if object == stored.value() {
                return Some(Payload::Stored(Arc::clone(stored)));
            }
            let expect = Expect::Revision(stored.revision);
            return self
                .put(&stored.kind, &stored.key, expect, object)
                .ok()
                .map(Payload::Stored);
        }
        // Objects that are removed immediately never have a deletion timestamp, except for pods.
        let last = if &*call.kind.plural == "pods" || meta::is_terminating(current) {
            object
        } else {
            stored.value()
        };
        let removed = self.remove(&stored.kind, &stored.key, stored.revision, last.clone());
        removed.ok().map(|_| self.deleted(call, last, false))
    }

    /// Sets the deletion timestamp.
    fn mark(&self, kind: &Kind, object: &mut Value, grace: i64) {
        let seconds = u64::try_from(grace).unwrap_or_default();
        let at = self.clock.now().checked_add(Duration::from_secs(seconds));
        let at = rfc3339_seconds(at.unwrap_or_else(|_| self.clock.now()));
        let generation = meta::generation(object);
        let metadata = meta::metadata(object);
        metadata.insert("deletionTimestamp".to_owned(), Value::String(at));
        metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
        if generation > 0 {
            metadata.insert("generation".to_owned(), json!(generation + 1));
        }
        if is_namespace(kind) {
            metadata.remove("deletionGracePeriodSeconds");
            meta::entry(object, "status").insert("phase".to_owned(), json!("Terminating"));
        }
    }

    /// Returns the response to a deletion.
    fn deleted(&self, call: &Call, object: Value, held: bool) -> Payload {
        if held || Strategy::of(&call.kind).deletion_returns_object {
            let mut object = object;
            let kind = call.kind_for_storage(self);
            if kind.conversion_webhook.is_some() {
                return Payload::Object(object);
            }
            kopf_sandbox_kinds::conversion::convert(
                &mut object,
                &kind,
                &kind.storage_version,
                &call.kind,
                &call.version,
            );
            return Payload::Object(object);
        }
        let mut details = json!({
            "name": call.name, "kind": call.kind.plural, "uid": meta::uid(&object),
        });
        if !call.kind.group.is_empty() {
            details["group"] = json!(call.kind.group);
        }
        Payload::Document(json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Success", "details": details,
        }))
    }

    /// Deletes all objects that match the selectors of the call. Returns the list of them.
    pub(crate) async fn delete_collection(
        &self,
        call: &Call,
        options: DeleteOptions,
    ) -> Result<Payload> {
        warn_of_orphans(call, &options);
        let page = self.list(call).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for stored in &page.items {
            let mut one = call.about(stored.key.namespace(), &stored.key.name);
            one.admission = Admission::Unnamed;
            match self.delete(&one, options.clone()).await {
                Ok(_) => items.push(Self::object(stored, &call.kind, &call.version)),
                Err(error) if error.code() == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Payload::Document(json!({
            "kind": call.kind.list_kind, "apiVersion": call.api_version(),
            "metadata": { "resourceVersion": self.store.revision().to_string() },
            "items": items,
        })))
    }
}

fn check_preconditions(
    call: &Call,
    options: &DeleteOptions,
    stored: &Stored,
    current: &Value,
) -> Result<()> {
    if let Some(uid) = &options.uid
        && uid != meta::uid(current)
    {
        return Err(ApiError::conflict(
            &call.kind,
            &call.name,
            &format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                meta::uid(current)
            ),
        ));
    }
    if let Some(version) = &options.resource_version
        && *version != stored.revision.to_string()
    {
        return Err(ApiError::conflict(
            &call.kind,
            &call.name,
            &format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
                stored.revision
            ),
        ));
    }
    Ok(())
}

/// Sets or removes the finalizers of the garbage collector, by the propagation policy.
fn propagate(kind: &Kind, options: &DeleteOptions, object: &mut Value) {
    let policy = Strategy::of(kind).default_propagation.map(|default| {
        let asked = options.propagation.or_else(|| finalizers_policy(object));
        asked.unwrap_or(default)
    });
    let wanted = match policy {
        None | Some(Propagation::Background) => None,
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
    };
    for finalizer in [FOREGROUND, ORPHAN] {
        if wanted != Some(finalizer) {
            meta::remove_finalizer(object, finalizer);
        }
    }
    if let Some(wanted) = wanted {
        meta::add_finalizer(object, wanted);
    }
}

/// Warns of orphaned dependents, which is the default for this kind only.
fn warn_of_orphans(call: &Call, options: &DeleteOptions) {
    let is_job = &*call.kind.group == "batch" && &*call.kind.plural == "jobs";
    if is_job && options.propagation.is_none() {
        call.warn(
            "child pods are preserved by default when jobs are deleted; \
             set propagationPolicy=Background to remove them \
             or set propagationPolicy=Orphan to suppress this warning",
        );
    }
}

/// Returns the grace period in seconds. Only pods on a node have one.
fn grace_period(kind: &Kind, object: &Value, options: &DeleteOptions) -> i64 {
    if !kind.group.is_empty() || &*kind.plural != "pods" {
        return 0;
    }
    let bound = object
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .is_some_and(|n| !n.is_empty());
    let phase = object
        .pointer("/status/phase")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !bound || matches!(phase, "Succeeded" | "Failed") {
        return 0;
    }
    options
        .grace_period
        .map(|seconds| if seconds < 0 { 1 } else { seconds })
        .or_else(|| {
            object
                .pointer("/spec/terminationGracePeriodSeconds")
                .and_then(Value::as_i64)
        })
        .unwrap_or(30)
        .max(0)
}

/// Shortens the remaining grace period. A second deletion cannot extend it.
fn shorten_grace(object: &mut Value, grace: i64, options: &DeleteOptions, now: jiff::Timestamp) {
    let left = object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64);
    if options.grace_period.is_some() && left.is_some_and(|left| grace < left) {
        let seconds = u64::try_from(grace).unwrap_or_default();
        let at = now.checked_add(Duration::from_secs(seconds)).unwrap_or(now);
        let metadata = meta::metadata(object);
        metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
        metadata.insert("deletionTimestamp".to_owned(), json!(rfc3339_seconds(at)));
    }
}

/// Returns the options as sent to webhooks.
fn sent_options(options: &DeleteOptions) -> Value {
    let mut sent = json!({ "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1" });
    if let Some(seconds) = options.grace_period {
        sent["gracePeriodSeconds"] = json!(seconds);
    }
    if let Some(policy) = options.propagation {
        sent["propagationPolicy"] = json!(match policy {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        });
    }
    if options.uid.is_some() || options.resource_version.is_some() {
        sent["preconditions"] =
            json!({ "uid": options.uid, "resourceVersion": options.resource_version });
    }
    if options.dry_run {
        sent["dryRun"] = json!(["All"]);
    }
    sent
}
