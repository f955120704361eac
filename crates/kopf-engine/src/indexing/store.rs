//! The values under one key of an index: at most one of each object.
//!
//! Snapshots are immutable and cheap. Values are kept in shards of a bounded size that are shared
//! between snapshots; a change copies one shard.

use std::fmt;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use super::ObjectKey;

/// Upper bound for the average number of values per shard.
const SHARD_SIZE: usize = 32;

/// A snapshot of the values under one key of an index. Cheap to clone.
pub struct Store<V>(Arc<Root<V>>);

struct Root<V> {
    len: usize,
    /// The shards; their number is a power of two.
    shards: Vec<Arc<Shard<V>>>,
}

type Shard<V> = Vec<(ObjectKey, Arc<V>)>;

impl<V> Store<V> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Returns `true` if there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Returns the values, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &V> {
        let shards = self.0.shards.iter();
        shards.flat_map(|shard| shard.iter().map(|(_, value)| &**value))
    }

    /// Returns `true` if any of the values equals this one.
    pub fn contains(&self, value: &V) -> bool
    where
        V: PartialEq,
    {
        self.iter().any(|other| other == value)
    }

    /// Sets the value of an object. Returns the former one, to be dropped after the lock is
    /// released.
    pub(super) fn insert(&mut self, object: &ObjectKey, value: V) -> Option<Arc<V>> {
        let root = Arc::make_mut(&mut self.0);
        let shard = Arc::make_mut(root.shard(object)?);
        let value = Arc::new(value);
        if let Some((_, known)) = shard.iter_mut().find(|(key, _)| key == object) {
            return Some(std::mem::replace(known, value));
        }
        shard.push((object.clone(), value));
        root.len += 1;
        if root.len > SHARD_SIZE * root.shards.len() {
            root.grow();
        }
        None
    }

    /// Removes the value of an object.
    pub(super) fn remove(&mut self, object: &ObjectKey) -> Option<Arc<V>> {
        let root = Arc::make_mut(&mut self.0);
        let shard = Arc::make_mut(root.shard(object)?);
        let position = shard.iter().position(|(key, _)| key == object)?;
        let (_, value) = shard.swap_remove(position);
        root.len -= 1;
        Some(value)
    }
}

impl<V> Root<V> {
    fn shard(&mut self, object: &ObjectKey) -> Option<&mut Arc<Shard<V>>> {
        let position = place(object, self.shards.len());
        self.shards.get_mut(position)
    }

    /// Doubles the number of shards.
    fn grow(&mut self) {
        let count = self.shards.len() * 2;
        let mut shards: Vec<Shard<V>> = (0..count).map(|_| Vec::new()).collect();
        for shard in self.shards.drain(..) {
            for (key, value) in shard.iter() {
                if let Some(new) = shards.get_mut(place(key, count)) {
                    new.push((key.clone(), Arc::clone(value)));
                }
            }
        }
        self.shards = shards.into_iter().map(Arc::new).collect();
    }
}

fn place(object: &ObjectKey, count: usize) -> usize {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(object);
    // The number of shards is a power of two, so the low bits select one.
    #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
    let hash = hash as usize;
    hash & (count - 1)
}

impl<V> Default for Store<V> {
    fn default() -> Self {
        let shards = vec![Arc::default()];
        Self(Arc::new(Root { len: 0, shards }))
    }
}

impl<V> Clone for Store<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V> Clone for Root<V> {
    fn clone(&self) -> Self {
        Self {
            len: self.len,
            shards: self.shards.clone(),
        }
    }
}

impl<V: fmt::Debug> fmt::Debug for Store<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(store: &Store<usize>) -> Vec<usize> {
        let mut values: Vec<_> = store.iter().copied().collect();
        values.sort_unstable();
        values
    }

    #[test]
    fn every_object_has_one_value() {
        let mut store = Store::default();
        for number in 0..1_000 {
            assert!(store.insert(&ObjectKey::numbered(number), number).is_none());
        }
        assert_eq!(store.len(), 1_000);
        assert_eq!(sorted(&store), (0..1_000).collect::<Vec<_>>());
        assert_eq!(
            store.insert(&ObjectKey::numbered(7), 70).as_deref(),
            Some(&7)
        );
        assert_eq!(store.len(), 1_000);
        assert!(store.contains(&70) && !store.contains(&7));
        for number in 0..1_000 {
            assert!(store.remove(&ObjectKey::numbered(number)).is_some());
        }
        assert!(store.remove(&ObjectKey::numbered(0)).is_none());
        assert!(store.is_empty());
        assert_eq!(store.iter().count(), 0);
    }

    #[test]
    fn snapshots_do_not_change() {
        let mut store = Store::default();
        store.insert(&ObjectKey::numbered(1), 1);
        let before = store.clone();
        store.insert(&ObjectKey::numbered(1), 10);
        store.insert(&ObjectKey::numbered(2), 2);
        assert_eq!(sorted(&before), [1]);
        assert_eq!(sorted(&store), [2, 10]);
    }

    #[test]
    fn a_change_copies_a_small_part() {
        let mut store = Store::default();
        for number in 0..10_000 {
            store.insert(&ObjectKey::numbered(number), number);
        }
        let before = store.clone();
        store.insert(&ObjectKey::numbered(1), 0);
        let pairs = before.0.shards.iter().zip(&store.0.shards);
        let copied: Vec<_> = pairs.filter(|(a, b)| !Arc::ptr_eq(a, b)).collect();
        assert_eq!(copied.len(), 1);
        assert!(copied.iter().all(|(shard, _)| shard.len() < 4 * SHARD_SIZE));
    }
}
