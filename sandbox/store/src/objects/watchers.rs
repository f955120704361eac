//! Watchers of a collection, and the end of their watches.
//!
//! A collection can be removed, or recreated under the same name, while watchers have unread
//! entries. A watcher keeps the end of the collection that it subscribed to, and never sees entries
//! of a later one.

use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use super::log::{Log, Reader};
use super::{Changes, Expired};

/// The watchers of a collection, on the side of the store.
#[derive(Debug)]
pub(super) struct Watchers<K> {
    news: watch::Sender<u64>,
    end: Arc<OnceLock<End<K>>>,
}

/// The unread entries of an ended watch.
#[derive(Debug)]
struct End<K> {
    log: Log<K>,
    revision: u64,
}

/// A subscription of one watcher to a collection.
#[derive(Debug)]
pub struct Subscription<K> {
    pub(super) collection: Arc<str>,
    /// Marked as changed when there may be new entries; closed when there will be no more.
    pub news: watch::Receiver<u64>,
    end: Arc<OnceLock<End<K>>>,
}

impl<K> Default for Watchers<K> {
    fn default() -> Self {
        Self {
            news: watch::Sender::default(),
            end: Arc::default(),
        }
    }
}

impl<K> Watchers<K> {
    pub(super) fn join(&self, collection: &Arc<str>) -> Subscription<K> {
        Subscription {
            collection: Arc::clone(collection),
            news: self.news.subscribe(),
            end: Arc::clone(&self.end),
        }
    }

    /// Returns the sender that notifies watchers of new events.
    pub(super) fn sender(&self) -> watch::Sender<u64> {
        self.news.clone()
    }

    /// Ends all watches: they still get the entries in the log. Freed with the last watcher.
    pub(super) fn end_all(&mut self, log: &Log<K>, revision: u64) {
        let former = std::mem::take(self);
        if former.news.receiver_count() > 0 {
            let log = log.clone();
            // This is the only place that sets it; later subscriptions refer to a new one.
            let set = former.end.set(End { log, revision });
            debug_assert!(set.is_ok(), "watches end once");
        }
    }
}

impl<K> Subscription<K> {
    pub(super) fn is_over(&self) -> bool {
        self.end.get().is_some()
    }

    /// Returns the unread entries, if the watch was ended.
    pub(super) fn rest(
        &self,
        after: u64,
        most: usize,
        reader: Reader,
    ) -> Option<Result<Changes<K>, Expired>> {
        let end = self.end.get()?;
        Some(
            Changes::of(&end.log, after, most, reader, end.revision).map(|changes| Changes {
                closed: true,
                ..changes
            }),
        )
    }
}
