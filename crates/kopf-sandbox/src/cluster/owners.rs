//! Who depends on whom: owner uids and the objects that name them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::kinds::Kind;
use crate::object::meta;
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
    dependents: HashMap<String, HashSet<Place>>,
    owners: HashMap<Place, (Arc<Kind>, Vec<String>)>,
}

impl Owners {
    /// Reads the owners of an object anew, whatever happened to it.
    ///
    /// The state is read under the index's own lock: of two concurrent writers, the one that comes here last
    /// sees the last state, so that the index can't be left behind.
    pub(crate) fn refresh(&self, store: &Store, collection: &Arc<str>, key: &Key) {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (Arc::clone(collection), key.clone());
        let now = store
            .get(collection, key)
            .filter(|stored| mentions_owners(&stored.raw));
        if now.is_none() && !index.owners.contains_key(&place) {
            return;
        }
        if let Some((_, uids)) = index.owners.remove(&place) {
            for uid in uids {
                if let Some(places) = index.dependents.get_mut(&uid) {
                    places.remove(&place);
                    if places.is_empty() {
                        index.dependents.remove(&uid);
                    }
                }
            }
        }
        let Some(stored) = now else { return };
        let uids: Vec<String> = meta::owner_references(&stored.value())
            .into_iter()
            .map(|owner| owner.uid)
            .filter(|uid| !uid.is_empty())
            .collect();
        if uids.is_empty() {
            return;
        }
        for uid in &uids {
            index
                .dependents
                .entry(uid.clone())
                .or_default()
                .insert(place.clone());
        }
        index.owners.insert(place, (Arc::clone(&stored.kind), uids));
    }

    /// The objects that name this owner, in a stable order.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Dependent> {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let mut places: Vec<&Place> = index.dependents.get(uid).into_iter().flatten().collect();
        places.sort();
        places
            .into_iter()
            .filter_map(|place| {
                let (kind, _) = index.owners.get(place)?;
                Some(Dependent {
                    kind: Arc::clone(kind),
                    key: place.1.clone(),
                })
            })
            .collect()
    }
}

/// A quick look that spares most objects the parsing. It may be wrong only towards "yes".
fn mentions_owners(raw: &[u8]) -> bool {
    const NAME: &[u8] = b"\"ownerReferences\"";
    raw.windows(NAME.len()).any(|window| window == NAME)
}
