//! Garbage collection: deletion of dependents whose owners are deleted, and foreground deletion.

use std::sync::Arc;

use kopf_sandbox_kinds::strategy::Propagation;
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::object::meta::{self, OwnerReference};
use kopf_sandbox_schema::rights::UserInfo;
use serde_json::Value;

use super::Cluster;
use super::controllers::Job;
use super::owners::Dependent;
use crate::call::Call;
use crate::request::options::DeleteOptions;
use crate::status::Result;
use crate::store::{Expect, Key, Unexpected};

/// The finalizer of an owner that waits until its dependents are deleted.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner that waits until its dependents are orphaned.
pub(crate) const ORPHAN: &str = "orphan";

/// The state of an owner in an owner reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    /// It exists.
    Solid,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// It does not exist.
    Absent,
    /// Undecidable: the kind is not served in that version, or cannot own such an object.
    Unknown,
}

impl Cluster {
    /// Returns the kind and key of an owner reference of an object in `namespace`, in any version.
    pub(crate) fn locate_owner(
        &self,
        owner: &OwnerReference,
        namespace: Option<&str>,
    ) -> Option<(Arc<Kind>, Key)> {
        let kinds = self.kinds();
        let kind = kinds.by_kind(owner.group(), &owner.kind)?;
        if kind.namespaced && namespace.is_none() {
            return None; // a cluster-scoped object cannot have an owner in a namespace
        }
        let namespace = namespace.filter(|_| kind.namespaced);
        Some((Arc::clone(kind), Key::new(namespace, &owner.name)))
    }

    fn owner_state(&self, owner: &OwnerReference, namespace: Option<&str>) -> OwnerState {
        if self.owners.is_gone(&owner.uid) {
            return OwnerState::Absent;
        }
        let Some((kind, key)) = self
            .locate_owner(owner, namespace)
            .filter(|(kind, _)| kind.version(owner.version()).is_some())
        else {
            return OwnerState::Unknown;
        };
        match self.store.get(&super::collection(&kind), &key) {
            None => OwnerState::Absent,
            Some(stored) => {
                let object = stored.value();
                if meta::uid(&object) != owner.uid {
                    OwnerState::Absent
                } else if waits_for_dependents(&object) {
                    OwnerState::Waiting
                } else {
                    OwnerState::Solid
                }
            }
        }
    }

    /// Checks the owners of an object: deletes it if none is left, and removes references to
    /// deleted ones.
    pub(crate) async fn check_owners(&self, kind: &Arc<Kind>, key: &Key) -> Result<()> {
        let collection = super::collection(kind);
        let Some(stored) = self.store.get(&collection, key) else {
            return Ok(());
        };
        if stored.terminating {
            return Ok(()); // already terminating
        }
        let object = stored.value();
        let owners = meta::owner_references(&object);
        let states: Vec<OwnerState> = owners
            .iter()
            .map(|owner| self.owner_state(owner, key.namespace()))
            .collect();
        if states.contains(&OwnerState::Unknown) {
            // An unresolved owner keeps the object and all its references.
            self.owners.mark_unresolved(&collection, key);
            return Ok(());
        }
        if states.iter().all(|state| *state == OwnerState::Solid) {
            return Ok(());
        }
        if states.contains(&OwnerState::Solid) {
            let gone: Vec<String> = owners
                .into_iter()
                .zip(states)
                .filter(|(_, state)| *state != OwnerState::Solid)
                .map(|(owner, _)| owner.uid)
                .collect();
            self.modify(kind, key, |object| meta::remove_owners(object, &gone));
            return Ok(());
        }
        let uid = meta::uid(&object);
        let dependents = self.owners.dependents(uid);
        let propagation = if states.contains(&OwnerState::Waiting) && !dependents.is_empty() {
            if dependents
                .iter()
                .any(|dependent| self.is_waiting(dependent))
            {
                // A cycle of blocking owners would wait forever.
                self.modify(kind, key, |object| unblock_owners(object, uid));
            }
            Propagation::Foreground
        } else {
            finalizers_policy(&object).unwrap_or(Propagation::Background)
        };
        self.delete_as_system(kind, key, uid, propagation, "generic-garbage-collector")
            .await
    }

    fn is_waiting(&self, dependent: &Dependent) -> bool {
        let collection = super::collection(&dependent.kind);
        self.store
            .get(&collection, &dependent.key)
            .is_some_and(|stored| stored.terminating && waits_for_dependents(&stored.value()))
    }

    /// Checks the objects with unresolved owners again. Called when new kinds are served.
    pub(crate) fn recheck_unresolved_owners(&self) {
        for Dependent { kind, key } in self.owners.take_unresolved() {
            self.jobs.push(Job::Dependent { kind, key });
        }
    }

    /// Advances the deletion of an object that waits for its dependents to be deleted or orphaned.
    pub(crate) fn end_with_dependents(&self, kind: &Arc<Kind>, key: &Key) {
        let Some(stored) = self.store.get(&super::collection(kind), key) else {
            return;
        };
        if !stored.terminating {
            return;
        }
        let object = stored.value();
        let uid = meta::uid(&object).to_owned();
        let dependents = self.owners.dependents(&uid);
        if meta::has_finalizer(&object, ORPHAN) {
            for Dependent { kind, key } in dependents {
                self.modify(&kind, &key, |object| {
                    meta::remove_owners(object, std::slice::from_ref(&uid));
                });
            }
            self.modify(kind, key, |object| meta::remove_finalizer(object, ORPHAN));
        } else if meta::has_finalizer(&object, FOREGROUND) {
            let mut blocked = false;
            for dependent in dependents {
                let collection = super::collection(&dependent.kind);
                let Some(stored) = self.store.get(&collection, &dependent.key) else {
                    continue;
                };
                blocked |= meta::owner_references(&stored.value())
                    .iter()
                    .any(|owner| owner.uid == uid && owner.blocks_owner_deletion);
                self.jobs.push(Job::Dependent {
                    kind: dependent.kind,
                    key: dependent.key,
                });
            }
            if !blocked {
                self.modify(kind, key, |object| {
                    meta::remove_finalizer(object, FOREGROUND);
                });
            }
        }
    }

    /// Changes the metadata of an object at any resource version. Removes the object if nothing
    /// holds it any more.
    pub(crate) fn modify(&self, kind: &Arc<Kind>, key: &Key, change: impl Fn(&mut Value)) {
        let collection = super::collection(kind);
        while let Some(stored) = self.store.get(&collection, key) {
            let before = stored.value();
            let mut object = before.clone();
            change(&mut object);
            let done = if is_finished(kind, &object) {
                self.remove(&stored.kind, key, stored.revision, object)
            } else if object == before {
                return;
            } else {
                let expect = Expect::Revision(stored.revision);
                self.put(&stored.kind, key, expect, object)
            };
            match done {
                Ok(_) | Err(Unexpected::TooLarge) => return,
                Err(Unexpected::Exists | Unexpected::Changed | Unexpected::NoParent) => {}
            }
        }
    }

    /// Deletes an object with its dependents without calling webhooks.
    pub(crate) fn delete_without_webhooks(&self, kind: &Arc<Kind>, key: &Key) {
        let user = UserInfo::of_service_account("kube-system", "crd-cleanup", "");
        let call = Call::internal(kind, key, user);
        let options = DeleteOptions::default();
        let collection = super::collection(kind);
        while let Some(stored) = self.store.get(&collection, key) {
            let current = Self::object(&stored, kind, &call.version);
            let done = self.carry_out_deletion(&call, &options, &stored, &current);
            if done.is_some() {
                return;
            }
        }
    }

    /// Deletes an object on behalf of a controller of the cluster.
    pub(crate) async fn delete_as_system(
        &self,
        kind: &Arc<Kind>,
        key: &Key,
        uid: &str,
        propagation: Propagation,
        controller: &str,
    ) -> Result<()> {
        let user = UserInfo::of_service_account("kube-system", controller, "").authenticated();
        let call = Call::internal(kind, key, user);
        let options = DeleteOptions {
            propagation: Some(propagation),
            uid: Some(uid.to_owned()),
            ..DeleteOptions::default()
        };
        match self.delete(&call, options).await {
            // Already deleted, or replaced by an object of the same name.
            Err(error) if matches!(error.code(), 404 | 409) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }
}

/// Returns the propagation policy requested by the finalizers of the owner.
pub(crate) fn finalizers_policy(object: &Value) -> Option<Propagation> {
    meta::finalizers(object).find_map(|finalizer| match finalizer {
        ORPHAN => Some(Propagation::Orphan),
        FOREGROUND => Some(Propagation::Foreground),
        _ => None,
    })
}

fn waits_for_dependents(object: &Value) -> bool {
    meta::is_terminating(object) && meta::has_finalizer(object, FOREGROUND)
}

/// Sets `blockOwnerDeletion: false` for all owners of the object with this uid.
fn unblock_owners(object: &mut Value, uid: &str) {
    if meta::uid(object) != uid {
        return;
    }
    let references = object
        .pointer_mut("/metadata/ownerReferences")
        .and_then(Value::as_array_mut);
    for reference in references.into_iter().flatten() {
        if let Some(blocks) = reference.get_mut("blockOwnerDeletion") {
            *blocks = Value::Bool(false);
        }
    }
}

/// Returns `true` if nothing holds a terminating object.
pub(crate) fn is_finished(kind: &Kind, object: &Value) -> bool {
    meta::is_terminating(object)
        && meta::finalizers(object).next().is_none()
        && !in_grace_period(object)
        && !(is_namespace(kind) && namespace_is_held(object))
}

fn in_grace_period(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds > 0)
}

pub(crate) fn is_namespace(kind: &Kind) -> bool {
    kind.group.is_empty() && &*kind.plural == "namespaces"
}

/// Returns `true` if `spec.finalizers` of a Namespace hold it.
pub(crate) fn namespace_is_held(object: &Value) -> bool {
    object
        .pointer("/spec/finalizers")
        .and_then(Value::as_array)
        .is_some_and(|finalizers| !finalizers.is_empty())
}
