//! The store: collections of serialised objects, one counter of revisions, and a log of recent
//! changes for watchers.
//!
//! The store is independent of rules and requests. It keeps the kind of each object, of any type `K`, and never
//! reads it. Its only decision is if a write finds the expected state. It never waits or calls out
//! while it holds its lock.

mod collection;
mod feed;
mod log;
#[cfg(test)]
mod tests;
mod watchers;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::collection::Collection;
pub use self::collection::{Key, Range, Snapshot, Stored};
use self::feed::Feed;
pub use self::feed::{Commit, Observer};
use self::log::Log;
pub use self::log::{Change, Entry, Reader, event_line, labels_of, uid_of};
pub use self::watchers::Subscription;
use crate::journal::{Journal, Place, Record};
use crate::sync::Mutex;

/// Estimated time of a watcher to process a notification, including its share of a connection.
const TIME_PER_WATCHER: Duration = Duration::from_micros(10);
/// Minimum pause; a shorter one would only delay notifications.
const SHORTEST_REST: Duration = Duration::from_millis(1);
/// Maximum delay of notifications, for any number of watchers.
const LONGEST_REST: Duration = Duration::from_millis(50);

/// The default request size limit of etcd, which bounds the size of objects.
const MOST_BYTES: usize = 1536 << 10;

/// The limits of the history of each collection.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub events: usize,
    pub bytes: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            events: 20_000,
            bytes: 64 << 20,
        }
    }
}

/// The expected state of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Absent,
    Revision(u64),
}

impl Expect {
    fn check<K>(self, found: Option<&Stored<K>>) -> Result<(), Unexpected> {
        match (self, found) {
            (Self::Absent, None) => Ok(()),
            (Self::Absent, Some(_)) => Err(Unexpected::Exists),
            (Self::Revision(revision), Some(found)) if found.revision == revision => Ok(()),
            (Self::Revision(_), _) => Err(Unexpected::Changed),
        }
    }
}

/// The reason why a write was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unexpected {
    /// The object exists, but was expected to be absent.
    Exists,
    /// The object was changed or deleted since it was read.
    Changed,
    /// A parent is deleted or terminating.
    NoParent,
    /// The object is larger than etcd allows, and larger than before.
    TooLarge,
}

/// An object that others depend on: a namespace or a CRD.
#[derive(Debug, Clone)]
pub struct Parent {
    pub collection: &'static str,
    pub key: Key,
    /// The revision of its creation, if other objects of this name are not accepted.
    pub born: Option<u64>,
}

/// The requested version is no longer in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// The oldest revision from which a watch can start.
    pub oldest: u64,
}

/// The changes of a collection.
#[derive(Debug)]
pub struct Changes<K> {
    pub entries: Vec<Arc<Entry<K>>>,
    /// The changes are complete up to this revision.
    pub complete: u64,
    /// There will be no more changes.
    pub closed: bool,
}

impl<K> Changes<K> {
    fn none(complete: u64) -> Self {
        Self {
            entries: Vec::new(),
            complete,
            closed: false,
        }
    }

    /// Returns up to `most` entries of a log that is complete up to `revision`.
    fn of(
        log: &Log<K>,
        after: u64,
        most: usize,
        reader: Reader,
        revision: u64,
    ) -> Result<Self, Expired> {
        let entries = log.after(after, most, reader)?;
        let complete = match entries.last() {
            Some(last) if entries.len() == most => last.revision(),
            _ => revision.max(after),
        };
        Ok(Self {
            entries,
            ..Self::none(complete)
        })
    }
}

/// All objects of one server, with kinds of the type `K`.
#[derive(Debug)]
pub struct Store<K> {
    inner: Mutex<Inner<K>>,
    window: Window,
    /// Wakes the [pump](Store::pump), the only waiter that writers notify.
    dirty: Notify,
    /// Keeps changes on disk, if they are durable.
    journal: Option<Journal>,
    /// Passes changes to an observer, if there is one.
    feed: Option<Feed<K>>,
}

#[derive(Debug)]
struct Inner<K> {
    revision: u64,
    /// History up to this revision is dropped, including that of later collections.
    floor: u64,
    collections: HashMap<Arc<str>, Collection<K>>,
    /// Collections with changes since the last notification. They are notified in a fixed order, so
    /// that a server under paused time is deterministic.
    dirty: BTreeSet<Arc<str>>,
}

impl<K> Inner<K> {
    fn place(&mut self, collection: &Arc<str>, parents: &[Parent]) -> &mut Collection<K> {
        let floor = self.floor;
        self.collections
            .entry(Arc::clone(collection))
            .or_insert_with(|| {
                // The history of an earlier kind of the same name is not available.
                let beginning = parents.iter().filter_map(|parent| parent.born).max();
                Collection::with_history_from(floor.max(beginning.unwrap_or(0)))
            })
    }

    fn find(&self, parent: &Parent) -> Option<&Arc<Stored<K>>> {
        let place = self.collections.get(parent.collection)?;
        let found = place.objects.get(&parent.key)?;
        parent
            .born
            .is_none_or(|born| born == found.born)
            .then_some(found)
    }
}

impl<K> Store<K> {
    pub fn new(window: Window) -> Self {
        Self {
            // The revision of a real server exceeds 1 at the first request, and 0 has a special
            // meaning.
            inner: Mutex::new(Inner {
                revision: 1,
                floor: 0,
                collections: HashMap::new(),
                dirty: BTreeSet::new(),
            }),
            window,
            dirty: Notify::new(),
            journal: None,
            feed: None,
        }
    }

    /// Passes all later changes to an observer.
    pub fn observe(&mut self, observer: Arc<dyn Observer<K>>) {
        self.feed = Some(Feed::new(observer));
    }

    /// Returns a store with a journal. `revision` is that of the last change in it.
    pub fn journaled(window: Window, journal: Journal, revision: u64) -> Self {
        let mut store = Self::new(window);
        store.journal = Some(journal);
        {
            let mut inner = store.lock();
            inner.revision = inner.revision.max(revision);
            inner.floor = inner.revision;
        }
        store
    }

    /// Adds an object from the journal.
    pub fn restore(&self, collection: &Arc<str>, stored: Stored<K>, parents: &[Parent]) {
        let mut inner = self.lock();
        let place = inner.place(collection, parents);
        place.objects.insert(stored.key.clone(), Arc::new(stored));
    }

    /// Waits until all changes so far are durable. Returns immediately without a journal.
    ///
    /// # Errors
    ///
    /// The disk cannot be written.
    pub async fn durable(&self) -> Result<(), Arc<str>> {
        match &self.journal {
            Some(journal) => journal.durable().await,
            None => Ok(()),
        }
    }

    /// Returns `true` if changes are kept on disk.
    pub fn is_kept(&self) -> bool {
        self.journal.is_some()
    }

    /// Writes pending changes to disk and closes the journal. Blocks until then.
    pub fn close(&self) {
        if let Some(journal) = &self.journal {
            journal.close();
        }
    }

    fn record(&self, record: &Record<'_>) {
        if let Some(journal) = &self.journal {
            journal.append(record);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock()
    }

    /// Returns the revision of the last write.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub fn get(&self, collection: &str, key: &Key) -> Option<Arc<Stored<K>>> {
        self.lock()
            .collections
            .get(collection)?
            .objects
            .get(key)
            .cloned()
    }

    /// Writes an object: creates it or replaces the expected revision.
    ///
    /// A creation requires all `parents`. The new `metadata.resourceVersion` is set here, under the
    /// lock.
    pub fn put(
        &self,
        collection: &Arc<str>,
        key: &Key,
        expect: Expect,
        kind: &Arc<K>,
        object: Value,
        parents: &[Parent],
    ) -> Result<Arc<Stored<K>>, Unexpected> {
        let stored = self.put_now(collection, key, expect, kind, object, parents)?;
        self.announce();
        Ok(stored)
    }

    fn put_now(
        &self,
        collection: &Arc<str>,
        key: &Key,
        expect: Expect,
        kind: &Arc<K>,
        object: Value,
        parents: &[Parent],
    ) -> Result<Arc<Stored<K>>, Unexpected> {
        let terminating = terminates(&object);
        let version = version_of(&object);
        let mut inner = self.lock();
        let inner = &mut *inner;
        let revision = inner.revision + 1;
        let place = match expect {
            Expect::Absent => {
                let stays = |parent| inner.find(parent).is_some_and(|found| !found.terminating);
                if !parents.iter().all(stays) {
                    return Err(Unexpected::NoParent);
                }
                inner.place(collection, parents)
            }
            Expect::Revision(_) => inner
                .collections
                .get_mut(collection)
                .ok_or(Unexpected::Changed)?,
        };
        let previous = place.objects.get(key).cloned();
        expect.check(previous.as_deref())?;
        let (raw, head) = serialised(object, revision);
        let before = previous.as_ref().map_or(0, |previous| previous.raw.len());
        if raw.len() > MOST_BYTES && raw.len() > before {
            return Err(Unexpected::TooLarge);
        }
        let stored = Arc::new(Stored {
            key: key.clone(),
            revision,
            born: previous.as_ref().map_or(revision, |previous| previous.born),
            terminating,
            kind: Arc::clone(kind),
            version,
            raw,
            head,
        });
        place.objects.insert(key.clone(), Arc::clone(&stored));
        self.record(&Record::Put {
            place: journal_place(collection, key),
            revision,
            born: stored.born,
            head: stored.head,
            raw: &stored.raw,
        });
        let change = if previous.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        let entry = Entry::new(change, Arc::clone(&stored), previous);
        self.queue(collection, &entry);
        place.log.push(entry, self.window);
        inner.revision = revision;
        inner.dirty.insert(Arc::clone(collection));
        Ok(stored)
    }

    /// Queues a change for the observer. Called under the lock.
    fn queue(&self, collection: &Arc<str>, entry: &Arc<Entry<K>>) {
        if let Some(feed) = &self.feed {
            feed.push(collection, entry);
        }
    }

    /// Tells the observer and the watchers about changes. Called without the lock.
    fn announce(&self) {
        if let Some(feed) = &self.feed {
            feed.deliver();
        }
        self.dirty.notify_one();
    }

    /// Removes an object of the expected revision. `last` is its final state in the DELETED event.
    pub fn remove(
        &self,
        collection: &Arc<str>,
        key: &Key,
        expected: u64,
        last: Value,
    ) -> Result<Arc<Stored<K>>, Unexpected> {
        let stored = self.remove_now(collection, key, expected, last)?;
        self.announce();
        Ok(stored)
    }

    fn remove_now(
        &self,
        collection: &Arc<str>,
        key: &Key,
        expected: u64,
        last: Value,
    ) -> Result<Arc<Stored<K>>, Unexpected> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let place = inner
            .collections
            .get_mut(collection)
            .ok_or(Unexpected::Changed)?;
        let previous = match place.objects.get(key) {
            Some(found) if found.revision == expected => Arc::clone(found),
            _ => return Err(Unexpected::Changed),
        };
        let revision = inner.revision + 1;
        let (raw, head) = serialised(last, revision);
        let kind = Arc::clone(&previous.kind);
        let stored = Arc::new(Stored {
            key: key.clone(),
            revision,
            born: previous.born,
            terminating: previous.terminating,
            version: Arc::clone(&previous.version),
            kind,
            raw,
            head,
        });
        inner.revision = revision;
        place.objects.remove(key);
        self.record(&Record::Remove {
            place: journal_place(collection, key),
            revision,
        });
        let entry = Entry::new(Change::Deleted, Arc::clone(&stored), Some(previous));
        self.queue(collection, &entry);
        place.log.push(entry, self.window);
        inner.dirty.insert(Arc::clone(collection));
        Ok(stored)
    }

    /// Returns the current objects of a collection, or of a range.
    pub fn list<'a>(&self, collection: &str, range: impl Into<Range<'a>>) -> Snapshot<K> {
        let inner = self.lock();
        let objects = inner
            .collections
            .get(collection)
            .map(|place| place.range(&range.into()))
            .unwrap_or_default();
        Snapshot {
            revision: inner.revision,
            objects,
        }
    }

    /// Returns the objects of a collection at a past revision.
    pub fn list_at<'a>(
        &self,
        collection: &str,
        range: impl Into<Range<'a>>,
        revision: u64,
    ) -> Result<Snapshot<K>, Expired> {
        let inner = self.lock();
        let objects = match inner.collections.get(collection) {
            Some(place) => place.range_at(&range.into(), revision)?,
            None if revision < inner.floor => {
                return Err(Expired {
                    oldest: inner.floor,
                });
            }
            None => Vec::new(),
        };
        Ok(Snapshot { revision, objects })
    }

    /// Returns the number of objects in a range at a past revision, without regard to its limit.
    pub fn count_at<'a>(
        &self,
        collection: &str,
        range: impl Into<Range<'a>>,
        revision: u64,
    ) -> Result<usize, Expired> {
        match self.lock().collections.get(collection) {
            Some(place) => place.count_at(&range.into(), revision),
            None => Ok(0),
        }
    }

    /// Returns an object at a past revision.
    pub fn get_at(
        &self,
        collection: &str,
        key: &Key,
        revision: u64,
    ) -> Result<Option<Arc<Stored<K>>>, Expired> {
        let inner = self.lock();
        let Some(place) = inner.collections.get(collection) else {
            return Ok(None);
        };
        Ok(match place.log.next_change_of(key, revision)? {
            Some(entry) => entry.previous.clone(),
            None => place.objects.get(key).cloned(),
        })
    }

    /// Returns the revision up to which all changes are shown by their times, and the time of the first
    /// one that is not. `is_shown` is monotonic: later changes are not shown before earlier ones.
    pub fn horizon(&self, is_shown: impl Fn(Instant) -> bool) -> (u64, Option<Instant>) {
        let inner = self.lock();
        let logs = inner.collections.values().map(|place| &place.log);
        let hidden = logs.filter_map(|log| log.first_hidden(&is_shown));
        match hidden.min_by_key(|entry| entry.revision()) {
            None => (inner.revision, None),
            Some(first) => (first.revision() - 1, Some(first.committed)),
        }
    }

    /// Returns the revision of the last compaction. Earlier states are not available.
    pub fn compacted(&self) -> u64 {
        self.lock().floor
    }

    /// Returns up to `most` changes after a revision, for a subscription.
    pub fn changes(
        &self,
        subscription: &Subscription<K>,
        after: u64,
        most: usize,
        reader: Reader,
    ) -> Result<Changes<K>, Expired> {
        let inner = self.lock();
        if let Some(rest) = subscription.rest(after, most, reader) {
            return rest;
        }
        match inner.collections.get(&subscription.collection) {
            Some(place) => Changes::of(&place.log, after, most, reader, inner.revision),
            None => Ok(Changes::none(inner.revision.max(after))),
        }
    }

    /// Subscribes a watcher to a collection. `None` if a parent of the collection is deleted.
    pub fn subscribe(&self, collection: &Arc<str>, parents: &[Parent]) -> Option<Subscription<K>> {
        let mut inner = self.lock();
        if !parents.iter().all(|parent| inner.find(parent).is_some()) {
            return None;
        }
        let place = inner.place(collection, parents);
        Some(place.watchers.join(collection))
    }

    /// Returns the current objects (of one namespace, if given) for a subscription.
    pub fn list_subscribed(
        &self,
        subscription: &Subscription<K>,
        namespace: Option<&str>,
    ) -> Snapshot<K> {
        let inner = self.lock();
        let place = inner
            .collections
            .get(&subscription.collection)
            .filter(|_| !subscription.is_over());
        Snapshot {
            revision: inner.revision,
            objects: place
                .map(|place| place.range(&namespace.into()))
                .unwrap_or_default(),
        }
    }

    /// Ends the watches of a collection after the last changes.
    pub fn end_watches(&self, collection: &str) {
        let mut inner = self.lock();
        let revision = inner.revision;
        if let Some(place) = inner.collections.get_mut(collection) {
            place.watchers.end_all(&place.log, revision);
        }
    }

    /// Removes a collection and ends its watches. Returns the keys of remaining objects.
    pub fn close_collection(&self, collection: &str) -> Vec<Key> {
        let mut inner = self.lock();
        let revision = inner.revision;
        let Some(mut place) = inner.collections.remove(collection) else {
            return Vec::new();
        };
        if !place.objects.is_empty() {
            self.record(&Record::Close { collection });
        }
        place.watchers.end_all(&place.log, revision);
        place.objects.into_keys().collect()
    }

    /// Drops all history up to the current revision: older watches and continue tokens expire.
    pub fn compact(&self) {
        let mut inner = self.lock();
        let revision = inner.revision;
        inner.floor = revision;
        for place in inner.collections.values_mut() {
            place.log.forget_through(revision);
        }
    }

    /// Returns the number of objects in a collection.
    pub fn count(&self, collection: &str) -> usize {
        let inner = self.lock();
        let place = inner.collections.get(collection);
        place.map_or(0, |place| place.objects.len())
    }

    /// Returns the number of objects in all collections.
    pub fn total(&self) -> usize {
        self.lock()
            .collections
            .values()
            .map(|place| place.objects.len())
            .sum()
    }

    /// Notifies watchers of new events until the server ends.
    ///
    /// A separate task, so that the cost of a write does not depend on the number of watchers. It
    /// pauses between notifications for about as long as the watchers need to process one: with
    /// many watchers, they read several changes at once instead of competing with the writers after
    /// each.
    pub async fn pump(&self) {
        loop {
            self.dirty.notified().await;
            let notified = self.notify_watchers();
            let rest = TIME_PER_WATCHER * u32::try_from(notified).unwrap_or(u32::MAX);
            if rest >= SHORTEST_REST {
                tokio::time::sleep(rest.min(LONGEST_REST)).await;
            }
        }
    }

    /// Notifies the watchers of changed collections. Returns the number of watchers.
    fn notify_watchers(&self) -> usize {
        let (revision, senders): (u64, Vec<_>) = {
            let inner = &mut *self.lock();
            let dirty = std::mem::take(&mut inner.dirty);
            let places = dirty.iter().filter_map(|name| inner.collections.get(name));
            (
                inner.revision,
                places.map(|place| place.watchers.sender()).collect(),
            )
        };
        // Outside of the lock: waking a thousand tasks takes longer than a write.
        let mut notified = 0;
        for news in senders {
            news.send_replace(revision);
            notified += news.receiver_count();
        }
        notified
    }
}

/// Returns `true` if an object has a deletion timestamp.
fn terminates(object: &Value) -> bool {
    let timestamp = object.pointer("/metadata/deletionTimestamp");
    timestamp.is_some_and(Value::is_string)
}

fn journal_place<'a>(collection: &'a str, key: &'a Key) -> Place<'a> {
    Place {
        collection,
        namespace: &key.namespace,
        name: &key.name,
    }
}

/// Returns the version of an object, by its `apiVersion`; empty without one.
fn version_of(object: &Value) -> Arc<str> {
    let api_version = object.get("apiVersion").and_then(Value::as_str);
    let version = api_version.and_then(|text| text.rsplit('/').next());
    Arc::from(version.unwrap_or_default())
}

/// Serialises an object with its new resource version. `apiVersion` and `kind` come first, so that
/// lists can omit them without parsing. Returns the offset of the rest as well.
fn serialised(mut object: Value, revision: u64) -> (Bytes, usize) {
    let mut text = Vec::with_capacity(512);
    text.push(b'{');
    if let Some(map) = object.as_object_mut() {
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert(
                "resourceVersion".to_owned(),
                Value::String(revision.to_string()),
            );
        }
        for field in ["kind", "apiVersion"] {
            let value = map.remove(field).unwrap_or_default();
            text.extend_from_slice(format!("\"{field}\":{value},").as_bytes());
        }
    }
    let head = text.len();
    // Serialising a `Value` to memory cannot fail: keys are strings and numbers are finite.
    let written = serde_json::to_writer(&mut text, &object);
    debug_assert!(written.is_ok(), "a JSON value is always serialisable");
    text.remove(head); // its opening brace is already written
    (Bytes::from(text.into_boxed_slice()), head)
}
