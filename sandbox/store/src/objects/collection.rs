//! The objects of one kind, in the order of lists.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::Expired;
use super::log::{Entry, Log, Reader};
use super::watchers::Watchers;

/// Namespace (empty for cluster-scoped objects) and name, in the order of lists.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        if self.namespace == other.namespace {
            return self.name.cmp(&other.name); // the common case, and faster
        }
        self.path().cmp(other.path())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Key {
    /// Returns the key as the storage path of a real server, which determines the order.
    fn path(&self) -> impl Iterator<Item = u8> {
        self.namespace
            .bytes()
            .chain([b'/'])
            .chain(self.name.bytes())
    }
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self {
            namespace: Arc::from(namespace.unwrap_or_default()),
            name: Arc::from(name),
        }
    }

    pub fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(&*self.namespace)
    }
}

/// One version of one object, serialised. Parsed values are not kept, because they are several
/// times larger.
pub struct Stored<K> {
    pub key: Key,
    pub revision: u64,
    /// The revision of its creation, which identifies the object among those of the same name.
    pub born: u64,
    /// `true` if it has a deletion timestamp.
    pub terminating: bool,
    /// The kind by which the object was written. Reading under another one may require defaulting
    /// or pruning.
    pub kind: Arc<K>,
    /// The version of `raw`: the storage version of `kind`, unless the object was converted.
    pub version: Arc<str>,
    /// The object with its `resourceVersion`.
    pub raw: Bytes,
    /// The offset in `raw` after `kind` and `apiVersion`.
    pub head: usize,
}

impl<K> fmt::Debug for Stored<K> {
    /// Omits the content: it may be a secret, and `Debug` output is logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

impl<K> Stored<K> {
    /// Returns the fields after `kind` and `apiVersion`, with the closing brace but without the
    /// opening one.
    pub fn rest(&self) -> &[u8] {
        self.raw.get(self.head..).unwrap_or_default()
    }

    /// Returns the same content under another resource version.
    #[must_use]
    pub fn at_revision(&self, revision: u64) -> Self {
        let (raw, head) = super::serialised(self.value(), revision);
        Self {
            key: self.key.clone(),
            revision,
            born: self.born,
            terminating: self.terminating,
            kind: Arc::clone(&self.kind),
            version: Arc::clone(&self.version),
            raw,
            head,
        }
    }

    /// Returns the same revision of the object in another version of its kind.
    #[must_use]
    pub fn converted(&self, kind: &Arc<K>, version: &str, object: Value) -> Self {
        let (raw, head) = super::serialised(object, self.revision);
        Self {
            key: self.key.clone(),
            revision: self.revision,
            born: self.born,
            terminating: self.terminating,
            kind: Arc::clone(kind),
            version: Arc::from(version),
            raw,
            head,
        }
    }

    pub fn value(&self) -> Value {
        // The store serialised these bytes itself.
        serde_json::from_slice(&self.raw).unwrap_or(Value::Null)
    }
}

/// The objects of a collection that a list contains.
#[derive(Debug, Clone, Copy)]
pub struct Range<'a> {
    /// The namespace; `None` for all.
    pub namespace: Option<&'a str>,
    /// The last object before the range; `None` to begin with the first one.
    pub after: Option<&'a Key>,
    /// The largest number of objects.
    pub most: usize,
}

impl<'a> From<Option<&'a str>> for Range<'a> {
    /// Returns all objects of a namespace.
    fn from(namespace: Option<&'a str>) -> Self {
        Self {
            namespace,
            after: None,
            most: usize::MAX,
        }
    }
}

impl Range<'_> {
    fn contains(&self, key: &Key) -> bool {
        self.namespace.is_none_or(|name| *key.namespace == *name)
            && self.after.is_none_or(|after| key > after)
    }
}

/// Objects at one revision, in order.
#[derive(Debug)]
pub struct Snapshot<K> {
    pub revision: u64,
    pub objects: Vec<Arc<Stored<K>>>,
}

/// All objects of one kind, with their recent changes.
#[derive(Debug)]
pub(crate) struct Collection<K> {
    pub objects: BTreeMap<Key, Arc<Stored<K>>>,
    pub log: Log<K>,
    pub watchers: Watchers<K>,
}

impl<K> Collection<K> {
    /// Returns an empty collection whose history starts after `revision`.
    pub(crate) fn with_history_from(revision: u64) -> Self {
        let mut log = Log::default();
        log.forget_through(revision);
        Self {
            objects: BTreeMap::new(),
            log,
            watchers: Watchers::default(),
        }
    }

    /// Returns the current objects of a range.
    pub(crate) fn range(&self, range: &Range<'_>) -> Vec<Arc<Stored<K>>> {
        self.within(range).take(range.most).cloned().collect()
    }

    /// Returns the range at `revision`, by reverting the changes since then.
    pub(crate) fn range_at(
        &self,
        range: &Range<'_>,
        revision: u64,
    ) -> Result<Vec<Arc<Stored<K>>>, Expired> {
        let since = self.log.after(revision, usize::MAX, Reader::New)?;
        if since.is_empty() {
            return Ok(self.range(range));
        }
        let before = Before::of(&since);
        let unchanged = self.within(range).filter(|stored| !before.knows(stored));
        let objects = merged(unchanged, before.restored(range));
        Ok(objects.take(range.most).cloned().collect())
    }

    /// Returns the number of objects in a range at `revision`, without regard to its limit.
    pub(crate) fn count_at(&self, range: &Range<'_>, revision: u64) -> Result<usize, Expired> {
        let since = self.log.after(revision, usize::MAX, Reader::New)?;
        let before = Before::of(&since);
        let unchanged = self.within(range).filter(|stored| !before.knows(stored));
        Ok(unchanged.count() + before.restored(range).count())
    }

    /// Returns the current objects of a range, without regard to its limit.
    fn within<'a>(&'a self, range: &Range<'a>) -> impl Iterator<Item = &'a Arc<Stored<K>>> {
        let namespace = range.namespace;
        let from = match (range.after, namespace) {
            (Some(after), _) => Bound::Excluded(after.clone()),
            (None, Some(namespace)) => Bound::Included(Key::new(Some(namespace), "")),
            (None, None) => Bound::Unbounded,
        };
        self.objects
            .range((from, Bound::Unbounded))
            .map(|(_, stored)| stored)
            .take_while(move |stored| namespace.is_none_or(|name| *stored.key.namespace == *name))
    }
}

/// The states of changed objects before their changes.
struct Before<'a, K>(BTreeMap<&'a Key, Option<&'a Arc<Stored<K>>>>);

impl<'a, K> Before<'a, K> {
    fn of(since: &'a [Arc<Entry<K>>]) -> Self {
        let mut before = BTreeMap::new();
        for entry in since {
            before
                .entry(&entry.object.key)
                .or_insert(entry.previous.as_ref());
        }
        Self(before)
    }

    fn knows(&self, stored: &Stored<K>) -> bool {
        self.0.contains_key(&stored.key)
    }

    /// Returns the objects of a range that existed, in order.
    fn restored(&self, range: &Range<'_>) -> impl Iterator<Item = &'a Arc<Stored<K>>> {
        let existed = self.0.values().filter_map(|stored| *stored);
        existed.filter(|stored| range.contains(&stored.key))
    }
}

/// Merges two sequences in the order of their keys.
fn merged<'a, K: 'a>(
    one: impl Iterator<Item = &'a Arc<Stored<K>>>,
    other: impl Iterator<Item = &'a Arc<Stored<K>>>,
) -> impl Iterator<Item = &'a Arc<Stored<K>>> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if second.key < first.key => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}
