//! An index with keys and values of some types.

use std::any::type_name;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::{AnyIndex, Entries, Mismatch, ObjectKey, Store};

/// What objects have put under keys. Read by many, written by the workers of its objects.
///
/// Looking up takes the same time however much there is, and replacing the entries of an object
/// depends on the number of its own keys alone. Locks are held for that long, and never while code
/// of users runs that does more than to compare, to hash or to clone keys.
pub struct Index<K, V>(RwLock<Inner<K, V>>);

struct Inner<K, V> {
    stores: HashMap<K, Store<V>>,
    /// Under which keys an object is.
    keys: HashMap<ObjectKey, Box<[K]>>,
}

impl<K, V> Index<K, V> {
    fn read(&self) -> RwLockReadGuard<'_, Inner<K, V>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.read().stores.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Clone + Eq + Hash, V> Index<K, V> {
    /// The values under a key, as they are now; an empty store if there are none.
    pub fn get<Q>(&self, key: &Q) -> Store<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.read().stores.get(key).cloned().unwrap_or_default()
    }

    /// Whether there are any values under a key.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.read().stores.contains_key(key)
    }

    /// All keys, as they are now, in no particular order.
    pub fn keys(&self) -> Vec<K> {
        self.read().stores.keys().cloned().collect()
    }

    /// All keys with their values, as they are now, in no particular order.
    pub fn items(&self) -> Vec<(K, Store<V>)> {
        let inner = self.read();
        let stores = inner.stores.iter();
        stores
            .map(|(key, store)| (key.clone(), store.clone()))
            .collect()
    }

    /// Makes these the entries of the object, instead of those before. Of several entries with the
    /// same key, the last one counts.
    pub fn put(&self, object: &ObjectKey, entries: impl IntoIterator<Item = (K, V)>) {
        let entries: HashMap<K, V> = entries.into_iter().collect();
        let keys: Box<[K]> = entries.keys().cloned().collect();
        let mut gone = Vec::new();
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = if keys.is_empty() {
            inner.keys.remove(object)
        } else {
            inner.keys.insert(object.clone(), keys.clone())
        };
        for key in before.into_iter().flatten() {
            if !entries.contains_key(&key) {
                gone.extend(inner.remove(object, &key));
            }
        }
        for (key, value) in entries {
            gone.extend(inner.stores.entry(key).or_default().insert(object, value));
        }
        // Dropping of values can be anything, even a look into this index.
        drop(inner);
        drop(gone);
    }

    /// Removes all entries of the object.
    pub fn remove(&self, object: &ObjectKey) {
        let mut gone = Vec::new();
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for key in inner.keys.remove(object).into_iter().flatten() {
            gone.extend(inner.remove(object, &key));
        }
        drop(inner);
        drop(gone);
    }
}

impl<K: Eq + Hash, V> Inner<K, V> {
    fn remove(&mut self, object: &ObjectKey, key: &K) -> Option<Arc<V>> {
        let store = self.stores.get_mut(key)?;
        let value = store.remove(object);
        if store.is_empty() {
            self.stores.remove(key);
        }
        value
    }
}

impl<K, V> AnyIndex for Index<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    fn replace(&self, object: &ObjectKey, entries: Entries) -> Result<(), Mismatch> {
        let entries = entries.downcast::<Vec<(K, V)>>().map_err(|_| Mismatch {
            expected: type_name::<(K, V)>(),
        })?;
        self.put(object, *entries);
        Ok(())
    }

    fn discard(&self, object: &ObjectKey) {
        self.remove(object);
    }
}

impl<K, V> Default for Index<K, V> {
    fn default() -> Self {
        Self(RwLock::new(Inner {
            stores: HashMap::new(),
            keys: HashMap::new(),
        }))
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().stores.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Texts = Index<String, u32>;

    fn object(number: usize) -> ObjectKey {
        ObjectKey::numbered(number)
    }

    fn entries(entries: &[(&str, u32)]) -> Vec<(String, u32)> {
        entries.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect()
    }

    fn values(index: &Texts, key: &str) -> Vec<u32> {
        let mut values: Vec<_> = index.get(key).iter().copied().collect();
        values.sort_unstable();
        values
    }

    #[test]
    fn entries_are_found_by_their_keys() {
        let index = Texts::default();
        index.put(&object(1), entries(&[("a", 1), ("b", 1)]));
        index.put(&object(2), entries(&[("b", 2)]));
        assert_eq!(values(&index, "a"), [1]);
        assert_eq!(values(&index, "b"), [1, 2]);
        assert_eq!(values(&index, "c"), [0; 0]);
        assert!(index.contains_key("a") && !index.contains_key("c"));
        assert_eq!(
            (index.len(), index.keys().len(), index.items().len()),
            (2, 2, 2)
        );
    }

    #[test]
    fn entries_of_an_object_replace_its_former_ones() {
        let index = Texts::default();
        index.put(&object(1), entries(&[("a", 1), ("b", 1)]));
        index.put(&object(2), entries(&[("b", 2)]));
        index.put(&object(1), entries(&[("b", 3), ("c", 4), ("c", 5)]));
        assert!(!index.contains_key("a"), "nothing is left under it");
        assert_eq!(values(&index, "b"), [2, 3]);
        assert_eq!(values(&index, "c"), [5], "one value for a key");
        index.put(&object(1), []);
        assert_eq!(index.keys(), ["b"]);
        index.remove(&object(2));
        index.remove(&object(2));
        assert!(index.is_empty());
        let inner = index.read();
        assert!(inner.keys.is_empty() && inner.stores.is_empty());
    }

    #[test]
    fn entries_of_other_types_are_refused() {
        let index = Texts::default();
        let refused = index.replace(&object(1), Box::new(vec![(1, 2)]));
        assert!(refused.unwrap_err().to_string().contains("String, u32"));
        index
            .replace(&object(1), Box::new(entries(&[("a", 1)])))
            .unwrap();
        assert_eq!(index.len(), 1);
        AnyIndex::discard(&index, &object(1));
        assert!(index.is_empty());
    }

    #[test]
    fn values_can_look_into_the_index_when_they_are_dropped() {
        struct Curious(Arc<Index<u32, Self>>);
        impl Drop for Curious {
            fn drop(&mut self) {
                assert!(!self.0.contains_key(&1));
            }
        }
        let index = Arc::new(Index::default());
        index.put(&object(1), [(1, Curious(Arc::clone(&index)))]);
        index.remove(&object(1));
        assert!(index.is_empty());
    }
}
