//! An index with typed keys and values.

use std::any::type_name;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use kopf_core::sync::RwLock;

use super::{AnyIndex, Entries, Mismatch, ObjectKey, Store};

/// A map from keys to the values of objects, filled by index handlers.
///
/// Lookups take constant time. Replacing the entries of an object takes time proportional to the
/// number of its keys. While a lock is held, the only user code that runs is the comparison,
/// hashing and cloning of keys.
pub struct Index<K, V>(RwLock<Inner<K, V>>);

struct Inner<K, V> {
    stores: HashMap<K, Store<V>>,
    /// The keys of each object.
    keys: HashMap<ObjectKey, Box<[K]>>,
}

impl<K, V> Index<K, V> {
    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.read().stores.len()
    }

    /// Returns `true` if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Clone + Eq + Hash, V> Index<K, V> {
    /// Returns a snapshot of the values under a key; empty if there are none.
    pub fn get<Q>(&self, key: &Q) -> Store<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.read().stores.get(key).cloned().unwrap_or_default()
    }

    /// Returns `true` if there are any values under a key.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.read().stores.contains_key(key)
    }

    /// Returns a snapshot of all keys, in no particular order.
    pub fn keys(&self) -> Vec<K> {
        self.0.read().stores.keys().cloned().collect()
    }

    /// Returns a snapshot of all keys with their values, in no particular order.
    pub fn items(&self) -> Vec<(K, Store<V>)> {
        let inner = self.0.read();
        let stores = inner.stores.iter();
        stores
            .map(|(key, store)| (key.clone(), store.clone()))
            .collect()
    }

    /// Replaces the entries of the object. Of several entries with the same key, the last one is
    /// used.
    pub fn put(&self, object: &ObjectKey, entries: impl IntoIterator<Item = (K, V)>) {
        let entries: HashMap<K, V> = entries.into_iter().collect();
        let keys: Box<[K]> = entries.keys().cloned().collect();
        let mut gone = Vec::new();
        let mut inner = self.0.write();
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
        // Values are dropped without the lock, because their destructors may read this index.
        drop(inner);
        drop(gone);
    }

    /// Removes all entries of the object.
    pub fn remove(&self, object: &ObjectKey) {
        let mut gone = Vec::new();
        let mut inner = self.0.write();
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
        self.0.read().stores.fmt(f)
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
        assert!(!index.contains_key("a"), "no values are left under the key");
        assert_eq!(values(&index, "b"), [2, 3]);
        assert_eq!(values(&index, "c"), [5], "one value per key");
        index.put(&object(1), []);
        assert_eq!(index.keys(), ["b"]);
        index.remove(&object(2));
        index.remove(&object(2));
        assert!(index.is_empty());
        let inner = index.0.read();
        assert!(inner.keys.is_empty() && inner.stores.is_empty());
    }

    #[test]
    fn entries_of_other_types_are_rejected() {
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
    fn destructors_of_values_can_read_the_index() {
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
