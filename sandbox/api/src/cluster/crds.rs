//! Lifecycle of CRDs: serving their kinds, and deleting their objects.

use std::sync::Arc;

use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::object::meta;

use super::Cluster;
use super::crd_cache::Served;
use crate::status::{ApiError, Result};
use crate::store::{Expect, Key};

/// The finalizer that holds a CRD until all its objects are deleted.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

pub(super) const COLLECTION: &str = "apiextensions.k8s.io/customresourcedefinitions";

pub(crate) fn is_crd(kind: &Kind) -> bool {
    &*kind.group == "apiextensions.k8s.io" && &*kind.plural == "customresourcedefinitions"
}

impl Cluster {
    /// Updates the conditions of all CRDs and the kinds they define.
    pub(super) fn read_crds(&self) {
        // Serialised: a later call must not read an older state.
        let mut definitions = self.crds.lock();
        let Some(crd_kind) = self.built_in("apiextensions.k8s.io", "customresourcedefinitions")
        else {
            return;
        };
        let now = self.clock.seconds();
        let collection = Arc::from(COLLECTION);
        let (gone, mut to_judge) = definitions.read(&self.store.list(COLLECTION, None).objects);
        for served in gone {
            self.stop_serving(&served);
            self.forget_objects(&served.kind);
        }
        // The conditions of a CRD can depend on those of others: iterate to the fixed point.
        while let Some(name) = to_judge.pop_front() {
            let Some((stored, crd)) = definitions.judge(&name, &now) else {
                continue;
            };
            let expect = Expect::Revision(stored.revision);
            let value = crd.clone();
            // On a conflict, the other write leads here again.
            if let Ok(stored) =
                self.store
                    .put(&collection, &stored.key, expect, &crd_kind, value, &[])
            {
                to_judge.extend(definitions.replace(stored, crd));
            }
        }
        for (former, now) in definitions.renew_kinds() {
            match (former, now) {
                (Some(former), None) => self.stop_serving(&former),
                (former, Some(now)) => self.serve(former.as_ref(), &now),
                (None, None) => {}
            }
        }
    }

    fn serve(&self, former: Option<&Served>, served: &Served) {
        let kind = Arc::clone(&served.kind);
        self.change_kinds(|kinds| kinds.insert(kind));
        if former.is_some_and(|former| former.looks_different_from(served)) {
            self.store.end_watches(&super::collection(&served.kind));
        }
    }

    fn stop_serving(&self, served: &Served) {
        self.change_kinds(|kinds| {
            kinds.remove(&served.kind.group, &served.kind.plural);
        });
    }

    /// Removes the collection of a kind that is no longer served. It contains objects only if they
    /// could not be deleted.
    fn forget_objects(&self, kind: &Kind) {
        let collection = super::collection(kind);
        for key in self.store.close_collection(&collection) {
            self.refresh_owners(&collection, &key);
        }
    }

    /// Rejects new objects of a terminating CRD.
    pub(crate) fn check_crd_accepts(kind: &Kind, name: &str) -> Result<()> {
        if kind.terminating {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::forbidden(kind, name, why));
        }
        Ok(())
    }

    /// Returns the error of a new object whose namespace or CRD was removed during the request.
    pub(crate) fn no_parent(&self, kind: &Kind, key: &Key) -> ApiError {
        let in_namespace = match key.namespace() {
            Some(namespace) => self.check_namespace(kind, namespace, &key.name),
            None => Ok(()),
        };
        let now = self.kinds().by_plural(&kind.group, &kind.plural).cloned();
        let as_kind = match now {
            Some(now) => Self::check_crd_accepts(&now, &key.name),
            None => Err(ApiError::no_such_path()),
        };
        let why = in_namespace.and(as_kind).err();
        // The CRD was recreated, but the request was for the previous one.
        why.unwrap_or_else(ApiError::no_such_path)
    }

    /// Deletes the objects of a terminating CRD, then the CRD itself. Webhooks are not called.
    pub(super) fn end_crd(&self, name: &str) {
        let key = Key::new(None, name);
        let Some(stored) = self.store.get(COLLECTION, &key) else {
            return;
        };
        if !stored.terminating || !meta::has_finalizer(&stored.value(), CLEANUP) {
            return;
        }
        let Some((plural, group)) = name.split_once('.') else {
            return;
        };
        let kinds = self.kinds();
        let kind = kinds
            .by_plural(group, plural)
            .filter(|kind| kind.is_custom());
        if let Some(kind) = kind {
            for stored in self.store.list(&super::collection(kind), None).objects {
                if !stored.terminating {
                    self.delete_without_webhooks(kind, &stored.key);
                }
            }
            if !self
                .store
                .list(&super::collection(kind), None)
                .objects
                .is_empty()
            {
                return;
            }
        }
        if let Some(crd_kind) = self.built_in("apiextensions.k8s.io", "customresourcedefinitions") {
            self.modify(&crd_kind, &key, |crd| meta::remove_finalizer(crd, CLEANUP));
        }
    }
}
