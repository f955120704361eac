//! Who watches a collection, and how that ends.
//!
//! A collection may end, or begin anew under the same name, while somebody still has entries to read. So
//! whoever watches holds on to the end of what was watched, and never sees what came after it.

use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use super::log::{Log, Reader};
use super::{Changes, Expired};

/// The watchers of a collection, as seen from there.
#[derive(Debug, Default)]
pub(super) struct Audience {
    news: watch::Sender<u64>,
    end: Arc<OnceLock<End>>,
}

/// What was left to read when a watch was ended from this side.
#[derive(Debug)]
struct End {
    log: Log,
    revision: u64,
}

/// One watcher's tie to what it watches.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(super) collection: Arc<str>,
    /// Marked changed when there may be new entries; closed when there will be no more.
    pub(crate) news: watch::Receiver<u64>,
    end: Arc<OnceLock<End>>,
}

impl Audience {
    pub(super) fn join(&self, collection: &Arc<str>) -> Subscription {
        Subscription {
            collection: Arc::clone(collection),
            news: self.news.subscribe(),
            end: Arc::clone(&self.end),
        }
    }

    /// What watchers are told of news with.
    pub(super) fn news(&self) -> watch::Sender<u64> {
        self.news.clone()
    }

    /// Ends all watches: they still get what is in the log. Freed with the last watcher.
    pub(super) fn dismiss(&mut self, log: &Log, revision: u64) {
        let former = std::mem::take(self);
        if former.news.receiver_count() > 0 {
            let log = log.clone();
            // Only here it is set, and everyone's tie is to a new one from now on.
            let set = former.end.set(End { log, revision });
            debug_assert!(set.is_ok(), "watches end once");
        }
    }
}

impl Subscription {
    pub(super) fn is_over(&self) -> bool {
        self.end.get().is_some()
    }

    /// What is left to read, if the watch was ended.
    pub(super) fn rest(
        &self,
        after: u64,
        most: usize,
        reader: Reader,
    ) -> Option<Result<Changes, Expired>> {
        let end = self.end.get()?;
        Some(
            Changes::of(&end.log, after, most, reader, end.revision).map(|changes| Changes {
                closed: true,
                ..changes
            }),
        )
    }
}
