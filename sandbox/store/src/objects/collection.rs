//! The objects of one kind, in the order of lists.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::Expired;
use super::log::{Log, Reader};
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

    pub(crate) fn range(&self, namespace: Option<&str>) -> Vec<Arc<Stored<K>>> {
        let Some(namespace) = namespace else {
            return self.objects.values().cloned().collect();
        };
        let from = Key::new(Some(namespace), "");
        self.objects
            .range((Bound::Included(from), Bound::Unbounded))
            .take_while(|(key, _)| &*key.namespace == namespace)
            .map(|(_, stored)| Arc::clone(stored))
            .collect()
    }

    /// Returns the range at `revision`, by reverting the changes since then.
    pub(crate) fn range_at(
        &self,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Vec<Arc<Stored<K>>>, Expired> {
        let since = self.log.after(revision, usize::MAX, Reader::New)?;
        if since.is_empty() {
            return Ok(self.range(namespace));
        }
        let mut before: HashMap<&Key, Option<&Arc<Stored<K>>>> = HashMap::new();
        for entry in &since {
            before
                .entry(&entry.object.key)
                .or_insert(entry.previous.as_ref());
        }
        let unchanged = self
            .range(namespace)
            .into_iter()
            .filter(|s| !before.contains_key(&s.key));
        let restored = before
            .values()
            .filter_map(|stored| stored.cloned())
            .filter(|stored| namespace.is_none_or(|wanted| &*stored.key.namespace == wanted));
        let mut objects: Vec<Arc<Stored<K>>> = unchanged.chain(restored).collect();
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(objects)
    }
}
