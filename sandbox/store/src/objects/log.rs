//! Recent changes of a collection: the history for watches.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::collection::{Key, Stored};
use super::{Expired, Window};

/// The type of a change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted.
    Deleted,
}

impl Change {
    /// Returns the `type` of the watch event, e.g. `ADDED`.
    pub fn event_type(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object.
pub struct Entry<K> {
    pub change: Change,
    /// The object after the change; for a deletion, its last state.
    pub object: Arc<Stored<K>>,
    pub previous: Option<Arc<Stored<K>>>,
    /// The time of the change, or of the creation of this entry from another.
    pub(super) committed: Instant,
    /// The serialised event for plain watchers, created once for all of them.
    frame: OnceLock<Bytes>,
    labels: OnceLock<(Value, Value)>,
}

impl<K> fmt::Debug for Entry<K> {
    /// Omits the lines that contain the whole object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("change", &self.change)
            .field("object", &self.object)
            .finish_non_exhaustive()
    }
}

impl<K> Entry<K> {
    pub fn new(
        change: Change,
        object: Arc<Stored<K>>,
        previous: Option<Arc<Stored<K>>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            change,
            object,
            previous,
            committed: Instant::now(),
            frame: OnceLock::new(),
            labels: OnceLock::new(),
        })
    }

    pub fn revision(&self) -> u64 {
        self.object.revision
    }

    /// Returns the line of the event for watchers without conversion and selectors.
    pub fn frame(&self) -> Bytes {
        self.frame
            .get_or_init(|| event_line(self.change.event_type(), &self.object.raw))
            .clone()
    }

    /// Returns the labels before and after the change.
    pub fn labels(&self) -> &(Value, Value) {
        self.labels.get_or_init(|| {
            let before = self
                .previous
                .as_ref()
                .map_or(Value::Null, |stored| labels_of(&stored.raw));
            (before, labels_of(&self.object.raw))
        })
    }
}

/// Returns `{"type":…,"object":…}` and a line feed, for a serialised object.
pub fn event_line(event_type: &str, raw: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(raw.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(event_type.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(raw);
    line.extend_from_slice(b"}\n");
    Bytes::from(line)
}

/// Returns the labels of a serialised object without parsing the rest.
pub fn labels_of(raw: &[u8]) -> Value {
    #[derive(Deserialize)]
    struct Peek {
        #[serde(default)]
        metadata: PeekMetadata,
    }
    #[derive(Deserialize, Default)]
    struct PeekMetadata {
        #[serde(default)]
        labels: Value,
    }
    serde_json::from_slice::<Peek>(raw).map_or(Value::Null, |peek| peek.metadata.labels)
}

/// Returns the uid of a serialised object without parsing the rest.
pub fn uid_of(raw: &[u8]) -> String {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Peek {
        metadata: PeekMetadata,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct PeekMetadata {
        uid: String,
    }
    serde_json::from_slice::<Peek>(raw).map_or_else(|_| String::new(), |peek| peek.metadata.uid)
}

/// Entries in the order of their revisions. The oldest are dropped first.
#[derive(Debug)]
pub(crate) struct Log<K> {
    entries: VecDeque<Arc<Entry<K>>>,
    bytes: usize,
    /// The oldest revision from which reading may start.
    forgotten: u64,
    /// The revision of the last dropped entry.
    dropped: u64,
}

/// The reader of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A reader that starts from a given revision.
    New,
    /// A reader that has read everything up to a revision: it misses only dropped entries.
    Live,
}

impl<K> Default for Log<K> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            forgotten: 0,
            dropped: 0,
        }
    }
}

impl<K> Clone for Log<K> {
    fn clone(&self) -> Self {
        Self {
            entries: self.entries.clone(),
            ..*self
        }
    }
}

impl<K> Log<K> {
    pub(crate) fn push(&mut self, entry: Arc<Entry<K>>, window: Window) {
        self.bytes += entry.object.raw.len();
        self.entries.push_back(entry);
        while self.entries.len() > window.events
            || (self.bytes > window.bytes && self.entries.len() > 1)
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.entries.pop_front() {
            self.bytes = self.bytes.saturating_sub(oldest.object.raw.len());
            self.forgotten = self.forgotten.max(oldest.revision());
            self.dropped = oldest.revision();
        }
    }

    pub(crate) fn forget_through(&mut self, revision: u64) {
        while self
            .entries
            .front()
            .is_some_and(|oldest| oldest.revision() <= revision)
        {
            self.forget_oldest();
        }
        self.forgotten = self.forgotten.max(revision);
    }

    /// Returns the first entry whose time is not shown. Times increase with the revisions.
    pub(crate) fn first_hidden(&self, is_shown: impl Fn(Instant) -> bool) -> Option<&Entry<K>> {
        let first = self
            .entries
            .partition_point(|entry| is_shown(entry.committed));
        self.entries.get(first).map(AsRef::as_ref)
    }

    /// Returns the first change of an object after a revision.
    pub(crate) fn next_change_of(
        &self,
        key: &Key,
        revision: u64,
    ) -> Result<Option<&Arc<Entry<K>>>, Expired> {
        if revision < self.forgotten {
            return Err(Expired {
                oldest: self.forgotten,
            });
        }
        let start = self
            .entries
            .partition_point(|entry| entry.revision() <= revision);
        let mut later = self.entries.range(start..);
        Ok(later.find(|entry| entry.object.key == *key))
    }

    pub(crate) fn after(
        &self,
        revision: u64,
        most: usize,
        reader: Reader,
    ) -> Result<Vec<Arc<Entry<K>>>, Expired> {
        let oldest = match reader {
            Reader::New => self.forgotten,
            Reader::Live => self.dropped,
        };
        if revision < oldest {
            return Err(Expired {
                oldest: self.forgotten,
            });
        }
        let start = self
            .entries
            .partition_point(|entry| entry.revision() <= revision);
        Ok(self.entries.range(start..).take(most).cloned().collect())
    }
}
