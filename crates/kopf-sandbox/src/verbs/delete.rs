//! `delete` and `deletecollection`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Call, Payload};
use crate::admission::Operation;
use crate::clock::rfc3339_seconds;
use crate::cluster::garbage::{FOREGROUND, ORPHAN, is_finished, is_namespace};
use crate::cluster::{Cluster, collection, crds};
use crate::kinds::{Kind, strategy};
use crate::object::meta;
use crate::request::options::{DeleteOptions, Propagation};
use crate::status::{ApiError, Result};
use crate::store::{Expect, Stored};

/// How often a deletion is tried on newer and newer states.
const ATTEMPTS: usize = 16;

impl Cluster {
    /// Deletes an object, or marks it for deletion if something holds it.
    pub(crate) async fn delete(&self, call: &Call, options: DeleteOptions) -> Result<Payload> {
        let collection = collection(&call.kind);
        for _ in 0..ATTEMPTS {
            let stored = self
                .store
                .get(&collection, &call.key())
                .ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
            if let Some(payload) = self.try_delete(call, &options, &stored).await? {
                return Ok(payload);
            }
        }
        Err(ApiError::modified(&call.kind, &call.name))
    }

    async fn try_delete(
        &self,
        call: &Call,
        options: &DeleteOptions,
        stored: &std::sync::Arc<Stored>,
    ) -> Result<Option<Payload>> {
        let current = Self::object(stored, &call.kind, &call.version);
        check_preconditions(call, options, stored, &current)?;
        Self::check_namespace_deletion(&call.kind, &call.name)?;
        let sent = sent_options(options);
        self.admit_mutating(call, Operation::Delete, None, Some(&current), &sent)
            .await?;
        self.admit_validating(call, Operation::Delete, None, Some(&current), &sent)
            .await?;

        let mut object = stored.value();
        propagate(options, &mut object);
        if crds::is_crd(&call.kind) {
            meta::add_finalizer(&mut object, crds::CLEANUP);
        }
        let grace = grace_period(&call.kind, &current, options);
        let held = meta::finalizers(&object).next().is_some()
            || grace > 0
            || (is_namespace(&call.kind)
                && !is_finished(&call.kind, &object)
                && holds_content(&object));
        if meta::is_terminating(&object) {
            shorten_grace(&mut object, grace, options, self.clock.now());
        } else {
            self.mark(&call.kind, &mut object, grace);
        }
        if options.dry_run {
            return Ok(Some(self.deleted(call, object, held)));
        }
        if held && !is_finished(&call.kind, &object) {
            if object == stored.value() {
                return Ok(Some(Payload::Stored(std::sync::Arc::clone(stored))));
            }
            let expect = Expect::Revision(stored.revision);
            return Ok(self
                .put(&stored.kind, &stored.key, expect, object)
                .ok()
                .map(Payload::Stored));
        }
        // Objects that go at once never show that they were marked, except for pods.
        let last = if &*call.kind.plural == "pods" || meta::is_terminating(&current) {
            object
        } else {
            stored.value()
        };
        let removed = self.remove(&stored.kind, &stored.key, stored.revision, last.clone());
        Ok(removed.ok().map(|_| self.deleted(call, last, false)))
    }

    /// Sets the time of deletion.
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

    /// The answer to a deletion.
    fn deleted(&self, call: &Call, object: Value, held: bool) -> Payload {
        if held || strategy::deletion_returns_object(&call.kind) {
            let mut object = object;
            let kind = call.kind_for_storage(self);
            crate::kinds::conversion::convert(
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

    /// Deletes all objects that the selectors of the call match; answers with the list of them.
    pub(crate) async fn delete_collection(
        &self,
        call: &Call,
        options: DeleteOptions,
    ) -> Result<Payload> {
        let page = self.list(call)?;
        let mut items = Vec::with_capacity(page.items.len());
        for stored in &page.items {
            let one = call.about(stored.key.namespace(), &stored.key.name);
            match self.delete(&one, options.clone()).await {
                Ok(_) => items.push(Self::object(stored, &call.kind, &call.version)),
                Err(error) if error.code == 404 => {}
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

/// Sets or clears the finalizers with which the garbage collector does what was asked for.
fn propagate(options: &DeleteOptions, object: &mut Value) {
    match options.propagation {
        None => {}
        Some(Propagation::Background) => {
            meta::remove_finalizer(object, FOREGROUND);
            meta::remove_finalizer(object, ORPHAN);
        }
        Some(Propagation::Foreground) => {
            meta::remove_finalizer(object, ORPHAN);
            meta::add_finalizer(object, FOREGROUND);
        }
        Some(Propagation::Orphan) => {
            meta::remove_finalizer(object, FOREGROUND);
            meta::add_finalizer(object, ORPHAN);
        }
    }
}

/// Seconds that an object is given to end. Only pods that run somewhere get any.
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
        .or_else(|| {
            object
                .pointer("/spec/terminationGracePeriodSeconds")
                .and_then(Value::as_i64)
        })
        .unwrap_or(30)
        .max(0)
}

/// A second deletion may only shorten the time that is left.
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

fn holds_content(namespace: &Value) -> bool {
    namespace
        .pointer("/spec/finalizers")
        .and_then(Value::as_array)
        .is_some_and(|finalizers| !finalizers.is_empty())
}

/// The options as webhooks see them.
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
