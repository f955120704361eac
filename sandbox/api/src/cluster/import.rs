//! Import of objects from a dump, and export.

use std::sync::Arc;

use kopf_sandbox_kinds::conform;
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::object::{meta, names};
use serde_json::{Value, json};

use super::{Cluster, collection, crds};
use crate::status::{ApiError, Result};
use crate::store::{Expect, Key, Unexpected};

/// Maximum number of attempts for an object that changes concurrently.
const ATTEMPTS: usize = 16;

impl Cluster {
    /// Stores an object with its uid, status, owner references, managed fields and timestamps. An
    /// object of the same name is replaced. Types are checked; validation rules and webhooks are
    /// skipped.
    ///
    /// `version` is that of the object. Namespaces and CRDs are stored as not terminating.
    pub async fn import(&self, kind: &Arc<Kind>, version: &str, mut object: Value) -> Result<()> {
        let mismatched = conform::conform(kind, version, &mut object);
        mismatched.map_err(|mismatch| ApiError::mistyped(kind, version, &mismatch))?;
        self.complete(kind, &mut object);
        let key = Key::new(
            meta::namespace(&object).filter(|_| kind.namespaced),
            meta::name(&object),
        );
        for name in key.namespace().into_iter().chain([&*key.name]) {
            // Such an object could be listed, but neither read nor deleted.
            if let Some(why) = names::path_segment(name).first() {
                return Err(ApiError::bad_request(format!(
                    "invalid name {name:?}: {why}"
                )));
            }
        }
        if let Some(namespace) = key.namespace() {
            self.ensure_namespace(namespace);
        }
        let object = self
            .converted(kind, object, &kind.storage_version.clone())
            .await?;
        for _ in 0..ATTEMPTS {
            let present = self.store.get(&collection(kind), &key);
            let expect =
                present.map_or(Expect::Absent, |present| Expect::Revision(present.revision));
            match self.put(kind, &key, expect, object.clone()) {
                Ok(_) => return Ok(()),
                Err(Unexpected::TooLarge) => return Err(ApiError::object_too_large()),
                Err(Unexpected::NoParent) => return Err(self.no_parent(kind, &key)),
                Err(Unexpected::Exists | Unexpected::Changed) => {}
            }
        }
        Err(ApiError::modified(kind, &key.name))
    }

    /// Adds the fields that every stored object has.
    fn complete(&self, kind: &Kind, object: &mut Value) {
        let (uid, now) = (self.ids.uid(), self.clock.seconds());
        let parent = crds::is_crd(kind) || super::garbage::is_namespace(kind);
        let metadata = meta::metadata(object);
        metadata.remove("resourceVersion");
        metadata.entry("uid").or_insert(Value::String(uid));
        let created = metadata.entry("creationTimestamp").or_insert(Value::Null);
        if created.is_null() {
            *created = Value::String(now);
        }
        if !parent {
            return;
        }
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
        if crds::is_crd(kind) {
            kopf_sandbox_schema::crd::default(object);
        } else {
            meta::entry(object, "status").insert("phase".to_owned(), json!("Active"));
            let finalizers = meta::entry(object, "spec").entry("finalizers");
            finalizers.or_insert_with(|| json!(["kubernetes"]));
        }
    }

    fn ensure_namespace(&self, name: &str) {
        if self.namespace(name).is_none() {
            self.establish("", "namespaces", super::bootstrap::namespace(name));
        }
    }

    /// Returns all objects in their storage versions: CRDs first, then namespaces, then the others by kind.
    pub fn export(&self) -> Vec<Value> {
        let kinds = self.kinds();
        let mut kinds: Vec<&Arc<Kind>> = kinds
            .iter()
            .filter(|kind| &*kind.group != "events.k8s.io")
            .collect();
        kinds.sort_by_key(|kind| {
            let parent = crds::is_crd(kind) || super::garbage::is_namespace(kind);
            let rank = if crds::is_crd(kind) {
                0
            } else {
                u8::from(!parent) + 1
            };
            (rank, Arc::clone(&kind.group), Arc::clone(&kind.plural))
        });
        kinds
            .into_iter()
            .flat_map(|kind| self.store.list(&collection(kind), None).objects)
            .map(|stored| stored.value())
            .collect()
    }
}
