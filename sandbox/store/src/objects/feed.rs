//! Commits in the order of their revisions, for an observer outside of the lock of the store.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::log::Entry;
use crate::sync::Mutex;

/// One change of the store.
#[derive(Debug)]
pub struct Commit<K> {
    pub collection: Arc<str>,
    pub entry: Arc<Entry<K>>,
    /// The request that caused the change; `None` for changes by the server itself.
    pub cause: Option<u64>,
}

/// An observer of all changes.
pub trait Observer<K>: Send + Sync {
    /// Returns the request of the current task. Called under the lock of the store.
    fn cause(&self) -> Option<u64>;

    /// Called once per change, in order, in the task of a writer, before its write returns. It must
    /// neither block nor write.
    fn observe(&self, commit: &Commit<K>);
}

/// The changes that the observer has not seen yet.
pub(super) struct Feed<K> {
    observer: Arc<dyn Observer<K>>,
    waiting: Mutex<VecDeque<Commit<K>>>,
    /// Locked while the observer is called, so that two writers cannot overtake each other.
    order: Mutex<()>,
}

impl<K> fmt::Debug for Feed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

impl<K> Feed<K> {
    pub(super) fn new(observer: Arc<dyn Observer<K>>) -> Self {
        Self {
            observer,
            waiting: Mutex::default(),
            order: Mutex::default(),
        }
    }

    /// Queues a change. Called under the lock of the store.
    pub(super) fn push(&self, collection: &Arc<str>, entry: &Arc<Entry<K>>) {
        let commit = Commit {
            collection: Arc::clone(collection),
            entry: Arc::clone(entry),
            cause: self.observer.cause(),
        };
        self.waiting.lock().push_back(commit);
    }

    /// Passes all queued changes to the observer. Called without the lock of the store. Every writer
    /// calls it, so the queue has at most one change per concurrent writer.
    pub(super) fn deliver(&self) {
        let _order = self.order.lock();
        while let Some(commit) = self.next() {
            self.observer.observe(&commit);
        }
    }

    fn next(&self) -> Option<Commit<K>> {
        self.waiting.lock().pop_front()
    }
}
