//! What recently happened in a collection: the history that watches start from.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::collection::Stored;
use super::{Expired, Window};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    /// The `type` of the watch event.
    pub(crate) fn event_type(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object.
pub(crate) struct Entry {
    pub(crate) change: Change,
    /// The object after the change; of a deletion, its last state.
    pub(crate) object: Arc<Stored>,
    pub(crate) previous: Option<Arc<Stored>>,
    /// The event as plain watchers get it: made once, whatever their number.
    frame: OnceLock<Bytes>,
    labels: OnceLock<(Value, Value)>,
}

impl fmt::Debug for Entry {
    /// Without the lines that hold the whole object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("change", &self.change)
            .field("object", &self.object)
            .finish_non_exhaustive()
    }
}

impl Entry {
    pub(crate) fn new(
        change: Change,
        object: Arc<Stored>,
        previous: Option<Arc<Stored>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            change,
            object,
            previous,
            frame: OnceLock::new(),
            labels: OnceLock::new(),
        })
    }

    pub(crate) fn revision(&self) -> u64 {
        self.object.revision
    }

    /// The line of the event for watchers that see every object as it is stored.
    pub(crate) fn frame(&self) -> Bytes {
        self.frame
            .get_or_init(|| event_line(self.change.event_type(), &self.object.raw))
            .clone()
    }

    /// Labels before and after the change.
    pub(crate) fn labels(&self) -> &(Value, Value) {
        self.labels.get_or_init(|| {
            let before = self
                .previous
                .as_ref()
                .map_or(Value::Null, |stored| labels_of(&stored.raw));
            (before, labels_of(&self.object.raw))
        })
    }
}

/// `{"type":…,"object":…}` and a line feed, around an object that is serialised already.
pub(crate) fn event_line(event_type: &str, raw: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(raw.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(event_type.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(raw);
    line.extend_from_slice(b"}\n");
    Bytes::from(line)
}

/// The labels of a serialised object, without parsing the rest of it.
pub(crate) fn labels_of(raw: &[u8]) -> Value {
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

/// Returns the uid of a serialised object, without parsing the rest of it.
pub(crate) fn uid_of(raw: &[u8]) -> String {
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

/// Entries in the order of their revisions, the oldest forgotten first.
#[derive(Debug, Default, Clone)]
pub(crate) struct Log {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
    /// Nobody may start from before this revision.
    forgotten: u64,
    /// The last entry that is gone.
    dropped: u64,
}

/// Who asks for history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Somebody who names a revision to start from.
    New,
    /// Somebody who has seen everything up to a revision: only entries that are really gone are missed.
    Live,
}

impl Log {
    pub(crate) fn push(&mut self, entry: Arc<Entry>, window: Window) {
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

    pub(crate) fn after(
        &self,
        revision: u64,
        most: usize,
        reader: Reader,
    ) -> Result<Vec<Arc<Entry>>, Expired> {
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
