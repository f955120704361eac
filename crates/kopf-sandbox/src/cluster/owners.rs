//! Who depends on whom: owner uids and the objects that name them.
//!
//! It knows what objects say of their owners, and which of those owners have been seen to go. Whether an
//! owner exists is not its business.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::kinds::Kind;
use crate::object::meta::{self, OwnerReference};
use crate::store::{Key, Store};

/// An object that has owners.
#[derive(Debug, Clone)]
pub(crate) struct Dependent {
    pub(crate) kind: Arc<Kind>,
    pub(crate) key: Key,
}

type Place = (Arc<str>, Key);

#[derive(Debug, Default)]
pub(crate) struct Owners {
    index: Mutex<Index>,
}

#[derive(Debug, Default)]
struct Index {
    by_owner: HashMap<String, Named>,
    by_dependent: HashMap<Place, (Arc<Kind>, Vec<OwnerReference>)>,
    /// Dependents with owners of kinds that were not served when they were looked at.
    unresolved: BTreeSet<Place>,
}

/// An owner as far as its dependents tell. Forgotten with the last of them.
#[derive(Debug, Default)]
struct Named {
    dependents: HashSet<Place>,
    /// It was seen to go. Its kind may be gone, too, so that nobody can ask for it any more.
    gone: bool,
}

impl Index {
    fn forget(&mut self, place: &Place) -> Vec<OwnerReference> {
        self.unresolved.remove(place);
        let Some((_, owners)) = self.by_dependent.remove(place) else {
            return Vec::new();
        };
        for owner in &owners {
            if let Some(named) = self.by_owner.get_mut(&owner.uid) {
                named.dependents.remove(place);
            }
        }
        owners
    }

    fn dependent(&self, place: &Place) -> Option<Dependent> {
        let (kind, _) = self.by_dependent.get(place)?;
        Some(Dependent {
            kind: Arc::clone(kind),
            key: place.1.clone(),
        })
    }
}

impl Owners {
    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the owners of an object anew, whatever happened to it. The answer is the owners that may wait
    /// for it no longer: it has forgotten them, or what it says of them has changed.
    ///
    /// The state is read under the index's own lock: of two concurrent writers, the one that comes here last
    /// sees the last state, so that the index can't be left behind.
    pub(crate) fn refresh(
        &self,
        store: &Store,
        collection: &Arc<str>,
        key: &Key,
    ) -> Vec<OwnerReference> {
        let mut index = self.lock();
        let place = (Arc::clone(collection), key.clone());
        let stored = store
            .get(collection, key)
            .filter(|stored| mentions_owners(&stored.raw));
        if stored.is_none() && !index.by_dependent.contains_key(&place) {
            return Vec::new();
        }
        let mut before = index.forget(&place);
        let mut now = Vec::new();
        if let Some(stored) = stored {
            now = meta::owner_references(&stored.value());
            now.retain(|owner| !owner.uid.is_empty());
            for owner in &now {
                let named = index.by_owner.entry(owner.uid.clone()).or_default();
                named.dependents.insert(place.clone());
            }
            if !now.is_empty() {
                let kind = Arc::clone(&stored.kind);
                index.by_dependent.insert(place, (kind, now.clone()));
            }
        }
        // Only now: an owner that is still named must be remembered as gone.
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

    /// Remembers that an owner is gone, for as long as anybody names it.
    pub(crate) fn mark_gone(&self, uid: &str) {
        if let Some(named) = self.lock().by_owner.get_mut(uid) {
            named.gone = true;
        }
    }

    /// Whether an owner was seen to go.
    pub(crate) fn is_gone(&self, uid: &str) -> bool {
        self.lock()
            .by_owner
            .get(uid)
            .is_some_and(|named| named.gone)
    }

    /// The objects that name this owner, in a stable order.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Dependent> {
        let index = self.lock();
        let Some(named) = index.by_owner.get(uid) else {
            return Vec::new();
        };
        let mut places: Vec<&Place> = named.dependents.iter().collect();
        places.sort();
        places
            .into_iter()
            .filter_map(|place| index.dependent(place))
            .collect()
    }

    /// Remembers an object with an owner of a kind that is not served.
    pub(crate) fn mark_unresolved(&self, collection: &Arc<str>, key: &Key) {
        let mut index = self.lock();
        let place = (Arc::clone(collection), key.clone());
        if index.by_dependent.contains_key(&place) {
            index.unresolved.insert(place);
        }
    }

    /// Hands over the objects with owners of kinds that were not served, in a stable order.
    pub(crate) fn take_unresolved(&self) -> Vec<Dependent> {
        let mut index = self.lock();
        let places = std::mem::take(&mut index.unresolved);
        places
            .iter()
            .filter_map(|place| index.dependent(place))
            .collect()
    }
}

/// A quick look that spares most objects the parsing. It may be wrong only towards "yes".
fn mentions_owners(raw: &[u8]) -> bool {
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
            let kinds = crate::kinds::builtin();
            Self {
                store: Store::new(Window::default()),
                owners: Owners::default(),
                collection: Arc::from("/configmaps"),
                kind: Arc::clone(kinds.by_plural("", "configmaps").unwrap()),
            }
        }

        /// Writes an object with these owners; gives the uids of those to look at.
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
    fn owners_that_may_wait_no_longer_are_told() {
        let fixture = Fixture::new();
        assert!(fixture.write("x", &[("a", true), ("b", true)]).is_empty());
        assert!(fixture.write("x", &[("a", true), ("b", true)]).is_empty());
        assert_eq!(fixture.write("x", &[("a", false), ("b", true)]), ["a"]);
        assert_eq!(fixture.write("x", &[("a", false)]), ["b"]);
        assert_eq!(fixture.remove("x"), ["a"]);
        assert!(fixture.refresh("x").is_empty());
    }

    #[test]
    fn an_owner_is_known_to_be_gone_while_it_is_named() {
        let fixture = Fixture::new();
        fixture.owners.mark_gone("a");
        assert!(!fixture.owners.is_gone("a"), "nobody cares for it");
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
    fn unresolved_dependents_are_handed_over_once() {
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
