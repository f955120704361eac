//! Garbage collection: dependents go when their owners are gone, and hold them up when asked to.

use std::sync::Arc;

use serde_json::Value;

use super::Cluster;
use super::controllers::Job;
use super::owners::Dependent;
use crate::access::UserInfo;
use crate::kinds::Kind;
use crate::object::meta::{self, OwnerReference};
use crate::request::options::{DeleteOptions, Propagation};
use crate::status::Result;
use crate::store::{Expect, Key};
use crate::verbs::Call;

/// The owner waits until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The owner waits until its dependents have forgotten it.
pub(crate) const ORPHAN: &str = "orphan";

/// What an owner reference leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    /// It exists, or nobody can tell.
    Solid,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// It does not exist.
    Absent,
}

impl Cluster {
    /// The kind and key that an owner reference of an object in `namespace` points at.
    pub(crate) fn locate_owner(
        &self,
        owner: &OwnerReference,
        namespace: Option<&str>,
    ) -> Option<(Arc<Kind>, Key)> {
        let kinds = self.kinds();
        let kind = kinds.by_kind(owner.group(), &owner.kind)?;
        if kind.namespaced && namespace.is_none() {
            return None; // an object of the whole cluster can't have an owner in a namespace
        }
        let namespace = namespace.filter(|_| kind.namespaced);
        Some((Arc::clone(kind), Key::new(namespace, &owner.name)))
    }

    fn owner_state(&self, owner: &OwnerReference, namespace: Option<&str>) -> OwnerState {
        let Some((kind, key)) = self.locate_owner(owner, namespace) else {
            return OwnerState::Solid; // a kind that is not served (now): better to keep too much
        };
        match self.store.get(&super::collection(&kind), &key) {
            None => OwnerState::Absent,
            Some(stored) => {
                let object = stored.value();
                if meta::uid(&object) != owner.uid {
                    OwnerState::Absent
                } else if meta::is_terminating(&object) && meta::has_finalizer(&object, FOREGROUND)
                {
                    OwnerState::Waiting
                } else {
                    OwnerState::Solid
                }
            }
        }
    }

    /// Looks after an object with owners: deletes it without any, and forgets those that are gone.
    pub(crate) async fn check_owners(&self, kind: &Arc<Kind>, key: &Key) -> Result<()> {
        let Some(stored) = self.store.get(&super::collection(kind), key) else {
            return Ok(());
        };
        let object = stored.value();
        let owners = meta::owner_references(&object);
        let states: Vec<OwnerState> = owners
            .iter()
            .map(|owner| self.owner_state(owner, key.namespace()))
            .collect();
        if owners.is_empty() || states.iter().all(|state| *state == OwnerState::Solid) {
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
        if meta::is_terminating(&object) {
            return Ok(());
        }
        let waited_for = states.contains(&OwnerState::Waiting);
        let has_dependents = !self.owners.dependents(meta::uid(&object)).is_empty();
        let propagation = if meta::has_finalizer(&object, ORPHAN) {
            Propagation::Orphan
        } else if meta::has_finalizer(&object, FOREGROUND) || (waited_for && has_dependents) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        self.delete_as_system(
            kind,
            key,
            meta::uid(&object),
            propagation,
            "generic-garbage-collector",
        )
        .await
    }

    /// Moves a terminating object on that waits for its dependents, or for being forgotten by them.
    pub(crate) fn end_with_dependents(&self, kind: &Arc<Kind>, key: &Key) {
        let Some(stored) = self.store.get(&super::collection(kind), key) else {
            return;
        };
        let object = stored.value();
        if !meta::is_terminating(&object) {
            return;
        }
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

    /// Changes the metadata of an object whatever its version; removes the object if that was the last
    /// thing it waited for.
    pub(crate) fn modify(&self, kind: &Arc<Kind>, key: &Key, change: impl Fn(&mut Value)) {
        let collection = super::collection(kind);
        while let Some(stored) = self.store.get(&collection, key) {
            let before = stored.value();
            let mut object = before.clone();
            change(&mut object);
            let done = if is_finished(kind, &object) {
                self.remove(&stored.kind, key, stored.revision, object)
                    .is_ok()
            } else if object == before {
                return;
            } else {
                let expect = Expect::Revision(stored.revision);
                self.put(&stored.kind, key, expect, object).is_ok()
            };
            if done {
                return;
            }
        }
    }

    /// Deletes an object as one of the cluster's own controllers.
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
            // Somebody else was faster: gone already, or replaced by a namesake.
            Err(error) if matches!(error.code, 404 | 409) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }
}

/// Whether nothing holds a terminating object any more.
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

/// Namespaces have finalizers in their specification, too.
fn namespace_is_held(object: &Value) -> bool {
    object
        .pointer("/spec/finalizers")
        .and_then(Value::as_array)
        .is_some_and(|finalizers| !finalizers.is_empty())
}
