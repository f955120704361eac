//! Where objects live: collections of serialised objects, one counter of revisions, and a log of recent
//! changes for watchers.
//!
//! The store knows nothing of kinds, rules or requests. It decides one thing only: whether a write finds
//! what it expects. It never waits and never calls out while its lock is held.

mod audience;
mod collection;
mod log;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::Notify;

pub(crate) use self::audience::Subscription;
use self::collection::Collection;
pub(crate) use self::collection::{Key, Snapshot, Stored};
use self::log::Log;
pub(crate) use self::log::{Change, Entry, Reader, event_line, labels_of, uid_of};
use crate::journal::{Journal, Place, Record};
use crate::kinds::Kind;
use crate::object::meta;

/// What a watcher needs to look at news, roughly: for its share of a connection included.
const TIME_PER_WATCHER: Duration = Duration::from_micros(10);
/// Below this, resting would only delay the news.
const SHORTEST_REST: Duration = Duration::from_millis(1);
/// Nobody waits longer than this for news, however many watchers there are.
const LONGEST_REST: Duration = Duration::from_millis(50);

/// The size of requests that etcd takes by default, which bounds the size of objects.
const MOST_BYTES: usize = 1536 << 10;

/// How much of the past is kept for watchers, for each collection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            events: 20_000,
            bytes: 64 << 20,
        }
    }
}

/// What a write expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    Absent,
    Revision(u64),
}

/// Why a write was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unexpected {
    /// There is an object where there should be none.
    Exists,
    /// The object has changed, or is gone, since it was read.
    Changed,
    /// Something without which it can't be is gone, or is about to go.
    NoParent,
    /// The object is larger than etcd takes it, and larger than it was.
    TooLarge,
}

/// An object that must be there for others to be: a namespace, a definition.
#[derive(Debug, Clone)]
pub(crate) struct Parent {
    pub(crate) collection: &'static str,
    pub(crate) key: Key,
    /// The revision of its creation, if no other object of this name will do.
    pub(crate) born: Option<u64>,
}

/// The version that was asked for is no longer in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The oldest revision from which a watch could still start.
    pub(crate) oldest: u64,
}

/// What has happened in a collection.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) entries: Vec<Arc<Entry>>,
    /// Nothing up to this revision is missing.
    pub(crate) complete: u64,
    /// There will be no more.
    pub(crate) closed: bool,
}

impl Changes {
    fn none(complete: u64) -> Self {
        Self {
            entries: Vec::new(),
            complete,
            closed: false,
        }
    }

    /// Up to `most` entries of a log that is complete up to `revision`.
    fn of(
        log: &Log,
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

/// All objects of one server.
#[derive(Debug)]
pub(crate) struct Store {
    inner: Mutex<Inner>,
    window: Window,
    /// Wakes the [pump](Store::pump): writers only ever touch this one waiter.
    dirty: Notify,
    /// Keeps changes on disk, if they outlive the process.
    journal: Option<Journal>,
}

#[derive(Debug)]
struct Inner {
    revision: u64,
    /// History up to this revision is forgotten, also in collections that appear later.
    floor: u64,
    collections: HashMap<Arc<str>, Collection>,
    /// Collections that changed since the pump last told their watchers; told in a fixed order, so that
    /// a server under paused time does the same things in the same order.
    dirty: BTreeSet<Arc<str>>,
}

impl Inner {
    fn place(&mut self, collection: &Arc<str>, parents: &[Parent]) -> &mut Collection {
        let floor = self.floor;
        self.collections
            .entry(Arc::clone(collection))
            .or_insert_with(|| {
                // Of a former kind of the same name nothing is known any more.
                let beginning = parents.iter().filter_map(|parent| parent.born).max();
                Collection::with_history_from(floor.max(beginning.unwrap_or(0)))
            })
    }

    fn find(&self, parent: &Parent) -> Option<&Arc<Stored>> {
        let place = self.collections.get(parent.collection)?;
        let found = place.objects.get(&parent.key)?;
        parent
            .born
            .is_none_or(|born| born == found.born)
            .then_some(found)
    }
}

impl Store {
    pub(crate) fn new(window: Window) -> Self {
        Self {
            // Real servers are past 1 before anybody can ask; 0 has a meaning of its own in requests.
            inner: Mutex::new(Inner {
                revision: 1,
                floor: 0,
                collections: HashMap::new(),
                dirty: BTreeSet::new(),
            }),
            window,
            dirty: Notify::new(),
            journal: None,
        }
    }

    /// Returns a store whose changes are kept by a journal. `revision` is that of the last change in it.
    pub(crate) fn journaled(window: Window, journal: Journal, revision: u64) -> Self {
        let mut store = Self::new(window);
        store.journal = Some(journal);
        {
            let mut inner = store.lock();
            inner.revision = inner.revision.max(revision);
            inner.floor = inner.revision;
        }
        store
    }

    /// Adds an object that the journal has kept.
    pub(crate) fn restore(&self, collection: &Arc<str>, stored: Stored, parents: &[Parent]) {
        let mut inner = self.lock();
        let place = inner.place(collection, parents);
        place.objects.insert(stored.key.clone(), Arc::new(stored));
    }

    /// Waits until all changes so far are on disk. Returns at once if they are not kept.
    ///
    /// # Errors
    ///
    /// The disk cannot be written.
    pub(crate) async fn durable(&self) -> Result<(), Arc<str>> {
        match &self.journal {
            Some(journal) => journal.durable().await,
            None => Ok(()),
        }
    }

    /// Returns `true` if the changes are kept on disk.
    pub(crate) fn is_kept(&self) -> bool {
        self.journal.is_some()
    }

    /// Writes what is left to disk and releases it. Blocks for the time of that.
    pub(crate) fn close(&self) {
        if let Some(journal) = &self.journal {
            journal.close();
        }
    }

    fn record(&self, record: &Record<'_>) {
        if let Some(journal) = &self.journal {
            journal.append(record);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The revision of the last write.
    pub(crate) fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub(crate) fn get(&self, collection: &str, key: &Key) -> Option<Arc<Stored>> {
        self.lock()
            .collections
            .get(collection)?
            .objects
            .get(key)
            .cloned()
    }

    /// Writes an object: creates it or replaces the revision that was expected.
    ///
    /// A new one needs `parents` that stay for now. The new `metadata.resourceVersion` is set here, because
    /// only here it is known.
    pub(crate) fn put(
        &self,
        collection: &Arc<str>,
        key: &Key,
        expect: Expect,
        kind: &Arc<Kind>,
        object: Value,
        parents: &[Parent],
    ) -> Result<Arc<Stored>, Unexpected> {
        let terminating = meta::is_terminating(&object);
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
        let previous = place.objects.get(key);
        match (expect, previous) {
            (Expect::Absent, None) => {}
            (Expect::Absent, Some(_)) => return Err(Unexpected::Exists),
            (Expect::Revision(revision), Some(found)) if found.revision == revision => {}
            (Expect::Revision(_), _) => return Err(Unexpected::Changed),
        }
        let previous = previous.cloned();
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
            version: version.unwrap_or_else(|| Arc::clone(&kind.storage_version)),
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
        place.log.push(
            Entry::new(change, Arc::clone(&stored), previous),
            self.window,
        );
        inner.revision = revision;
        inner.dirty.insert(Arc::clone(collection));
        self.dirty.notify_one();
        Ok(stored)
    }

    /// Removes an object of the expected revision. `last` is its final state, as the DELETED event shows it.
    pub(crate) fn remove(
        &self,
        collection: &Arc<str>,
        key: &Key,
        expected: u64,
        last: Value,
    ) -> Result<Arc<Stored>, Unexpected> {
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
        place.log.push(
            Entry::new(Change::Deleted, Arc::clone(&stored), Some(previous)),
            self.window,
        );
        inner.dirty.insert(Arc::clone(collection));
        self.dirty.notify_one();
        Ok(stored)
    }

    /// The objects of a collection (of one namespace, if given) as they are now.
    pub(crate) fn list(&self, collection: &str, namespace: Option<&str>) -> Snapshot {
        let inner = self.lock();
        let objects = inner
            .collections
            .get(collection)
            .map(|place| place.range(namespace))
            .unwrap_or_default();
        Snapshot {
            revision: inner.revision,
            objects,
        }
    }

    /// The objects of a collection as they were at a revision of the past.
    pub(crate) fn list_at(
        &self,
        collection: &str,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Snapshot, Expired> {
        let inner = self.lock();
        let objects = match inner.collections.get(collection) {
            Some(place) => place.range_at(namespace, revision)?,
            None if revision < inner.floor => {
                return Err(Expired {
                    oldest: inner.floor,
                });
            }
            None => Vec::new(),
        };
        Ok(Snapshot { revision, objects })
    }

    /// Up to `most` changes after a revision, of what was subscribed to.
    pub(crate) fn changes(
        &self,
        subscription: &Subscription,
        after: u64,
        most: usize,
        reader: Reader,
    ) -> Result<Changes, Expired> {
        let inner = self.lock();
        if let Some(rest) = subscription.rest(after, most, reader) {
            return rest;
        }
        match inner.collections.get(&subscription.collection) {
            Some(place) => Changes::of(&place.log, after, most, reader, inner.revision),
            None => Ok(Changes::none(inner.revision.max(after))),
        }
    }

    /// Ties a watcher to a collection. `None` if a parent of the collection is gone.
    pub(crate) fn subscribe(
        &self,
        collection: &Arc<str>,
        parents: &[Parent],
    ) -> Option<Subscription> {
        let mut inner = self.lock();
        if !parents.iter().all(|parent| inner.find(parent).is_some()) {
            return None;
        }
        let place = inner.place(collection, parents);
        Some(place.audience.join(collection))
    }

    /// The objects (of one namespace, if given) as they are now, of what was subscribed to.
    pub(crate) fn list_subscribed(
        &self,
        subscription: &Subscription,
        namespace: Option<&str>,
    ) -> Snapshot {
        let inner = self.lock();
        let place = inner
            .collections
            .get(&subscription.collection)
            .filter(|_| !subscription.is_over());
        Snapshot {
            revision: inner.revision,
            objects: place
                .map(|place| place.range(namespace))
                .unwrap_or_default(),
        }
    }

    /// Ends the watches of a collection: they get the last changes and end.
    pub(crate) fn end_watches(&self, collection: &str) {
        let mut inner = self.lock();
        let revision = inner.revision;
        if let Some(place) = inner.collections.get_mut(collection) {
            place.audience.dismiss(&place.log, revision);
        }
    }

    /// Ends a collection and its watches. The answer is the keys of objects that were left in it.
    pub(crate) fn close_collection(&self, collection: &str) -> Vec<Key> {
        let mut inner = self.lock();
        let revision = inner.revision;
        let Some(mut place) = inner.collections.remove(collection) else {
            return Vec::new();
        };
        if !place.objects.is_empty() {
            self.record(&Record::Close { collection });
        }
        place.audience.dismiss(&place.log, revision);
        place.objects.into_keys().collect()
    }

    /// Forgets all history up to the present revision: older watches and continue tokens expire.
    pub(crate) fn compact(&self) {
        let mut inner = self.lock();
        let revision = inner.revision;
        inner.floor = revision;
        for place in inner.collections.values_mut() {
            place.log.forget_through(revision);
        }
    }

    /// Returns the number of objects in a collection.
    pub(crate) fn count(&self, collection: &str) -> usize {
        let inner = self.lock();
        let place = inner.collections.get(collection);
        place.map_or(0, |place| place.objects.len())
    }

    /// The number of objects in all collections.
    pub(crate) fn len(&self) -> usize {
        self.lock()
            .collections
            .values()
            .map(|place| place.objects.len())
            .sum()
    }

    /// Tells watchers of news, for as long as the server lives.
    ///
    /// A task of its own, so that a write costs the same with a thousand watchers as with none. Between two
    /// rounds it rests for about as long as the watchers need for one: crowds of them read several changes
    /// at once instead of taking the processor from the writers after each.
    pub(crate) async fn pump(&self) {
        loop {
            self.dirty.notified().await;
            let told = self.tell();
            let rest = TIME_PER_WATCHER * u32::try_from(told).unwrap_or(u32::MAX);
            if rest >= SHORTEST_REST {
                tokio::time::sleep(rest.min(LONGEST_REST)).await;
            }
        }
    }

    /// Marks the collections with news as changed; the answer is how many watchers that concerns.
    fn tell(&self) -> usize {
        let (revision, senders): (u64, Vec<_>) = {
            let inner = &mut *self.lock();
            let dirty = std::mem::take(&mut inner.dirty);
            let places = dirty.iter().filter_map(|name| inner.collections.get(name));
            (
                inner.revision,
                places.map(|place| place.audience.news()).collect(),
            )
        };
        // Outside of the lock: to wake a thousand tasks takes longer than a write.
        let mut told = 0;
        for news in senders {
            news.send_replace(revision);
            told += news.receiver_count();
        }
        told
    }
}

fn journal_place<'a>(collection: &'a str, key: &'a Key) -> Place<'a> {
    Place {
        collection,
        namespace: &key.namespace,
        name: &key.name,
    }
}

/// Returns the version in which an object is, by its `apiVersion`.
fn version_of(object: &Value) -> Option<Arc<str>> {
    let api_version = object.get("apiVersion")?.as_str()?;
    api_version.rsplit('/').next().map(Arc::from)
}

/// Serialises an object with its new resourceVersion. `apiVersion` and `kind` come first, so that lists can
/// leave them out without parsing; returned with the bytes is where the rest begins.
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
    // Writing a `Value` into memory has nothing to fail at: keys are strings and numbers are finite.
    let written = serde_json::to_writer(&mut text, &object);
    debug_assert!(written.is_ok(), "a JSON value is always serialisable");
    text.remove(head); // its opening brace is written already
    (Bytes::from(text.into_boxed_slice()), head)
}
