//! The owner index: owner uids and the objects that refer to them.
//!
//! The index contains the owner references of objects, and which of these owners were seen to be
//! deleted. It does not decide if an owner exists.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, MutexGuard};

use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::object::meta::{self, OwnerReference};
use kopf_sandbox_store::sync::Mutex;

use crate::store::{Key, Store};

/// An object with owner references.
#[derive(Debug, Clone)]
pub struct Dependent {
    pub kind: Arc<Kind>,
    pub key: Key,
}

type ObjectId = (Arc<str>, Key);

#[derive(Debug, Default)]
pub struct Owners {
    index: Mutex<Index>,
}

#[derive(Debug, Default)]
struct Index {
    by_owner: HashMap<String, Named>,
    by_dependent: HashMap<ObjectId, (Arc<Kind>, Vec<OwnerReference>)>,
    /// Dependents with owners whose kinds were not served at the last check.
    unresolved: BTreeSet<ObjectId>,
}

/// An owner in the references of its dependents. Removed with the last of them.
#[derive(Debug, Default)]
struct Named {
    dependents: HashSet<ObjectId>,
    /// Its deletion was observed. Its kind may no longer be served, so it cannot be looked up.
    gone: bool,
}

impl Index {
    fn forget(&mut self, object_id: &ObjectId) -> Vec<OwnerReference> {
        self.unresolved.remove(object_id);
        let Some((_, owners)) = self.by_dependent.remove(object_id) else {
            return Vec::new();
        };
        for owner in &owners {
            if let Some(named) = self.by_owner.get_mut(&owner.uid) {
                named.dependents.remove(object_id);
            }
        }
        owners
    }

    fn dependent(&self, object_id: &ObjectId) -> Option<Dependent> {
        let (kind, _) = self.by_dependent.get(object_id)?;
        Some(Dependent {
            kind: Arc::clone(kind),
            key: object_id.1.clone(),
        })
    }
}

impl Owners {
    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock()
    }

    /// Re-reads the owner references of an object. Returns the owners that may no longer have to
    /// wait for it: it does not refer to them any more, or the reference has changed.
    ///
    /// The state is read under the index's own lock: of two concurrent writers, the last one reads
    /// the last state, so the index cannot become stale.
    pub(crate) fn refresh(
        &self,
        store: &Store,
        collection: &Arc<str>,
        key: &Key,
    ) -> Vec<OwnerReference> {
        let mut index = self.lock();
        let object_id = (Arc::clone(collection), key.clone());
        let stored = store
            .get(collection, key)
            .filter(|stored| mentions_owners(&stored.raw));
        if stored.is_none() && !index.by_dependent.contains_key(&object_id) {
            return Vec::new();
        }
        let mut before = index.forget(&object_id);
        let mut now = Vec::new();
        if let Some(stored) = stored {
            now = meta::owner_references(&stored.value());
            now.retain(|owner| !owner.uid.is_empty());
            for owner in &now {
                let named = index.by_owner.entry(owner.uid.clone()).or_default();
                named.dependents.insert(object_id.clone());
            }
            if !now.is_empty() {
                let kind = Arc::clone(&stored.kind);
                index.by_dependent.insert(object_id, (kind, now.clone()));
            }
        }
        // After the additions: an owner that is still referenced must stay marked as deleted.
        for owner in &before {
            if let Some(named) = index.by_owner.get(&owner.uid)
                && named.dependents.is_empty()
            {
                index.by_owner.remove(&owner.uid);
            }
        }
        before.retain(|owner| !now.contains(owner));
        before
    }

    /// Marks an owner as deleted for as long as any object refers to it.
    pub(crate) fn mark_gone(&self, uid: &str) {
        if let Some(named) = self.lock().by_owner.get_mut(uid) {
            named.gone = true;
        }
    }

    /// Returns `true` if the deletion of an owner was observed.
    pub(crate) fn is_gone(&self, uid: &str) -> bool {
        self.lock()
            .by_owner
            .get(uid)
            .is_some_and(|named| named.gone)
    }

    /// Returns the objects that refer to this owner, in a stable order.
    pub fn dependents(&self, uid: &str) -> Vec<Dependent> {
        let index = self.lock();
        let Some(named) = index.by_owner.get(uid) else {
            return Vec::new();
        };
        let mut object_ids: Vec<&ObjectId> = named.dependents.iter().collect();
        object_ids.sort();
        object_ids
            .into_iter()
            .filter_map(|object_id| index.dependent(object_id))
            .collect()
    }

    /// Marks an object as having an owner of a kind that is not served.
    pub(crate) fn mark_unresolved(&self, collection: &Arc<str>, key: &Key) {
        let mut index = self.lock();
        let object_id = (Arc::clone(collection), key.clone());
        if index.by_dependent.contains_key(&object_id) {
            index.unresolved.insert(object_id);
        }
    }

    /// Removes and returns the objects with owners of kinds that were not served, in a stable
    /// order.
    pub(crate) fn take_unresolved(&self) -> Vec<Dependent> {
        let mut index = self.lock();
        let object_ids = std::mem::take(&mut index.unresolved);
        object_ids
            .iter()
            .filter_map(|object_id| index.dependent(object_id))
            .collect()
    }
}

/// Returns `false` if the object has no owner references for sure. Avoids parsing most objects.
pub(super) fn mentions_owners(raw: &[u8]) -> bool {
    const NAME: &[u8] = b"\"ownerReferences\"";
    raw.windows(NAME.len()).any(|window| window == NAME)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::store::{Expect, Window};

    struct Fixture {
        store: Store,
        owners: Owners,
        collection: Arc<str>,
        kind: Arc<Kind>,
    }

    impl Fixture {
        fn new() -> Self {
            let kinds = kopf_sandbox_kinds::builtin::builtin();
            Self {
                store: Store::new(Window::default()),
                owners: Owners::default(),
                collection: Arc::from("/configmaps"),
                kind: Arc::clone(kinds.by_plural("", "configmaps").unwrap()),
            }
        }

        /// Writes an object with these owners. Returns the uids of owners to check.
        fn write(&self, name: &str, owners: &[(&str, bool)]) -> Vec<String> {
            let key = Key::new(Some("default"), name);
            let references: Vec<Value> = owners
                .iter()
                .map(|(uid, blocks)| json!({"uid": uid, "blockOwnerDeletion": blocks}))
                .collect();
            let object = json!({"metadata": {"name": name, "ownerReferences": references}});
            let expect = match self.store.get(&self.collection, &key) {
                Some(stored) => Expect::Revision(stored.revision),
                None => Expect::Absent,
            };
            self.store
                .put(&self.collection, &key, expect, &self.kind, object, &[])
                .unwrap();
            self.refresh(name)
        }

        fn remove(&self, name: &str) -> Vec<String> {
            let key = Key::new(Some("default"), name);
            let stored = self.store.get(&self.collection, &key).unwrap();
            self.store
                .remove(&self.collection, &key, stored.revision, stored.value())
                .unwrap();
            self.refresh(name)
        }

        fn refresh(&self, name: &str) -> Vec<String> {
            let key = Key::new(Some("default"), name);
            let owners = self.owners.refresh(&self.store, &self.collection, &key);
            owners.into_iter().map(|owner| owner.uid).collect()
        }
    }

    #[test]
    fn refresh_returns_owners_to_recheck() {
        let fixture = Fixture::new();
        assert!(fixture.write("x", &[("a", true), ("b", true)]).is_empty());
        assert!(fixture.write("x", &[("a", true), ("b", true)]).is_empty());
        assert_eq!(fixture.write("x", &[("a", false), ("b", true)]), ["a"]);
        assert_eq!(fixture.write("x", &[("a", false)]), ["b"]);
        assert_eq!(fixture.remove("x"), ["a"]);
        assert!(fixture.refresh("x").is_empty());
    }

    #[test]
    fn deleted_owner_is_marked_while_it_is_referenced() {
        let fixture = Fixture::new();
        fixture.owners.mark_gone("a");
        assert!(!fixture.owners.is_gone("a"), "it has no dependents");
        fixture.write("x", &[("a", false)]);
        fixture.write("y", &[("a", false)]);
        fixture.owners.mark_gone("a");
        fixture.write("x", &[("a", true)]);
        fixture.remove("y");
        assert!(fixture.owners.is_gone("a"));
        fixture.remove("x");
        assert!(fixture.owners.lock().by_owner.is_empty());
    }

    #[test]
    fn unresolved_dependents_are_returned_once() {
        let fixture = Fixture::new();
        for name in ["y", "x", "z"] {
            fixture.write(name, &[("a", false)]);
            let key = Key::new(Some("default"), name);
            fixture.owners.mark_unresolved(&fixture.collection, &key);
        }
        fixture.remove("z");
        let names: Vec<_> = fixture.owners.take_unresolved();
        let names: Vec<&str> = names.iter().map(|found| &*found.key.name).collect();
        assert_eq!(names, ["x", "y"]);
        assert!(fixture.owners.take_unresolved().is_empty());
    }
}
