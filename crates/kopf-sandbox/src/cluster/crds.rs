//! What CRDs bring about: kinds that are served, and their end.

use std::sync::{Arc, PoisonError};

use serde_json::Value;

use super::Cluster;
use crate::kinds::Kind;
use crate::object::meta;
use crate::request::options::Propagation;
use crate::status::{ApiError, Result};
use crate::store::{Expect, Key};

/// Holds a CRD until all objects of its kind are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

const COLLECTION: &str = "apiextensions.k8s.io/customresourcedefinitions";

pub(crate) fn is_crd(kind: &Kind) -> bool {
    &*kind.group == "apiextensions.k8s.io" && &*kind.plural == "customresourcedefinitions"
}

impl Cluster {
    /// Brings the conditions of all CRDs and the kinds that they define up to date.
    pub(super) fn read_crds(&self) {
        // One at a time: what is read must not be older than what was read before.
        let _guard = self.crds.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(crd_kind) = self.built_in("apiextensions.k8s.io", "customresourcedefinitions")
        else {
            return;
        };
        let now = self.clock.seconds();
        // The conditions of one CRD may depend on those of another: on to the fixed point.
        loop {
            let stored = self.store.list(COLLECTION, None).objects;
            let crds: Vec<Value> = stored.iter().map(|stored| stored.value()).collect();
            let mut changed = false;
            for (at, (crd, stored)) in crds.iter().zip(&stored).enumerate() {
                let others: Vec<Value> = crds
                    .iter()
                    .enumerate()
                    .filter(|(other, _)| *other != at)
                    .map(|(_, crd)| crd.clone())
                    .collect();
                let status = crate::crd::conditions(crd, &others, &now);
                if crd.get("status") != Some(&status) {
                    let mut crd = crd.clone();
                    crd["status"] = status;
                    let expect = Expect::Revision(stored.revision);
                    let collection = Arc::from(COLLECTION);
                    // Lost against another writer: then that one's write leads here again.
                    changed |= self
                        .store
                        .put(&collection, &stored.key, expect, &crd_kind, crd)
                        .is_ok();
                    break;
                }
            }
            if !changed {
                self.serve(&crds);
                return;
            }
        }
    }

    /// Serves the kinds of these CRDs and no others.
    fn serve(&self, crds: &[Value]) {
        let known = self.kinds();
        for crd in crds {
            let name = meta::name(crd);
            let uid_and_generation = (
                meta::uid(crd).to_owned(),
                meta::generation(crd),
                meta::is_terminating(crd),
            );
            let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
            if !crate::crd::is_established(crd) {
                if served.contains_key(name) {
                    drop(served);
                    self.stop_serving(name);
                }
                continue;
            }
            let group = crd
                .pointer("/spec/group")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let plural = crd
                .pointer("/spec/names/plural")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let same = served.get(name) == Some(&uid_and_generation);
            if same && known.by_plural(group, plural).is_some() {
                continue;
            }
            match crate::crd::kind(crd) {
                Ok(kind) => {
                    served.insert(name.to_owned(), uid_and_generation);
                    drop(served);
                    self.change_kinds(|kinds| kinds.insert(kind));
                }
                Err(errors) => tracing::warn!(crd = name, ?errors, "the CRD can't be served"),
            }
        }
    }

    /// Stops serving the kind of a CRD.
    pub(super) fn forget_crd(&self, name: &str) {
        {
            // Whoever is working out the kinds may still have seen this CRD: its turn comes first.
            let _guard = self.crds.lock().unwrap_or_else(PoisonError::into_inner);
            self.stop_serving(name);
        }
        // A name that was taken may be free now.
        self.read_crds();
    }

    fn stop_serving(&self, name: &str) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.remove(name);
        drop(served);
        let Some((plural, group)) = name.split_once('.') else {
            return;
        };
        self.change_kinds(|kinds| {
            kinds.remove(group, plural);
        });
        self.store.close_collection(&format!("{group}/{plural}"));
    }

    /// Refuses new objects of a kind that is about to go.
    pub(crate) fn check_crd_accepts(kind: &Kind, name: &str) -> Result<()> {
        if kind.terminating {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::forbidden(kind, name, why));
        }
        Ok(())
    }

    /// Deletes the objects of a terminating CRD and lets it go when none is left.
    pub(super) async fn end_crd(&self, name: &str) -> Result<()> {
        let key = Key::new(None, name);
        let Some(stored) = self.store.get(COLLECTION, &key) else {
            return Ok(());
        };
        let crd = stored.value();
        if !meta::is_terminating(&crd) || !meta::has_finalizer(&crd, CLEANUP) {
            return Ok(());
        }
        let Some((plural, group)) = name.split_once('.') else {
            return Ok(());
        };
        let mut failure = None;
        if let Some(kind) = self.kinds().by_plural(group, plural) {
            for stored in self.store.list(&super::collection(kind), None).objects {
                let object = stored.value();
                if meta::is_terminating(&object) {
                    continue;
                }
                let uid = meta::uid(&object);
                let policy = Propagation::Background;
                let deleted = self
                    .delete_as_system(kind, &stored.key, uid, policy, "crd-cleanup")
                    .await;
                failure = failure.or(deleted.err());
            }
            if !self
                .store
                .list(&super::collection(kind), None)
                .objects
                .is_empty()
            {
                return failure.map_or(Ok(()), Err);
            }
        }
        if let Some(crd_kind) = self.built_in("apiextensions.k8s.io", "customresourcedefinitions") {
            self.modify(&crd_kind, &key, |crd| meta::remove_finalizer(crd, CLEANUP));
        }
        Ok(())
    }
}
