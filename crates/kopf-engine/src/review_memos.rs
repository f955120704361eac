//! Memos of reviewed objects, shared with the other handlers of the objects.
//!
//! The memo of a watched object is owned by its worker or stream, and is referenced weakly here. A
//! memo that was created for a review and has no other owner is kept here until a worker of the
//! object takes it over. The number of such memos is bounded; the oldest are dropped first.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use kopf_core::sync::Mutex;

use crate::indexing::ObjectKey;
use crate::memos::{MemoCell, WeakMemo};

/// Maximum number of memos without another owner.
const MAX_KEPT: usize = 10_000;

/// Number of known memos below which dead references are not collected.
const MIN_COLLECTED: usize = 1_024;

/// Memos by object. Cheap to clone: clones share the memos.
#[derive(Clone, Default)]
pub(crate) struct Memos(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    known: HashMap<ObjectKey, Known>,
    /// Keys of kept memos, the oldest first. Some of them may have been dropped since.
    order: VecDeque<ObjectKey>,
    /// Number of known memos that triggers the next collection.
    limit: usize,
}

struct Known {
    memo: WeakMemo,
    kept: Option<MemoCell>,
}

impl Memos {
    /// Returns the memo of an object, or a new one.
    pub(super) fn recall(&self, object: &ObjectKey, operator: &MemoCell) -> MemoCell {
        let mut inner = self.0.lock();
        if let Some(memo) = inner.known.get(object).and_then(Known::memo) {
            return memo;
        }
        let memo = operator.of_object();
        inner.learn(object, &memo);
        memo
    }

    /// Keeps a memo after a review, if it was initialised and has no other owner.
    pub(super) fn keep(&self, object: &ObjectKey, memo: &MemoCell) {
        let mut inner = self.0.lock();
        if !memo.is_made() || !memo.is_unshared() {
            return;
        }
        inner.learn(object, memo);
        if let Some(known) = inner.known.get_mut(object)
            && known.kept.is_none()
        {
            known.kept = Some(memo.clone());
            inner.order.push_back(object.clone());
        }
        while inner.order.len() > MAX_KEPT {
            let oldest = inner.order.pop_front();
            if let Some(known) = oldest.and_then(|oldest| inner.known.get_mut(&oldest)) {
                known.kept = None;
            }
        }
    }

    /// Returns the memo for a worker of the object, which owns it from now on.
    pub(crate) fn hand_over(&self, object: &ObjectKey, operator: &MemoCell) -> MemoCell {
        let memo = self.recall(object, operator);
        let mut inner = self.0.lock();
        let kept = inner
            .known
            .get_mut(object)
            .and_then(|known| known.kept.take());
        if kept.is_some() {
            // A later memo of the same object would inherit the position.
            inner.order.retain(|other| other != object);
        }
        memo
    }
}

impl Inner {
    fn learn(&mut self, object: &ObjectKey, memo: &MemoCell) {
        let memo = memo.downgrade();
        if let Some(known) = self.known.get_mut(object) {
            known.memo = memo;
        } else {
            let known = Known { memo, kept: None };
            self.known.insert(object.clone(), known);
        }
        if self.known.len() > self.limit.max(MIN_COLLECTED) {
            self.known.retain(|_, known| known.memo().is_some());
            self.limit = self.known.len().saturating_mul(2);
        }
    }
}

impl Known {
    fn memo(&self) -> Option<MemoCell> {
        self.kept.clone().or_else(|| self.memo.upgrade())
    }
}

impl fmt::Debug for Memos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memos({} known)", self.0.lock().known.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::memos::{Memo, MemoFactory};

    /// Factory of numbered memos.
    #[derive(Default)]
    struct Numbered(AtomicUsize);

    impl MemoFactory for Numbered {
        fn for_operator(&self) -> Memo {
            Arc::new(())
        }

        fn for_object(&self, _: &Memo) -> Memo {
            Arc::new(self.0.fetch_add(1, Ordering::SeqCst))
        }
    }

    fn operator() -> MemoCell {
        MemoCell::of_operator(Arc::new(Numbered::default()))
    }

    fn number(memo: &MemoCell) -> usize {
        *memo.get().downcast_ref::<usize>().unwrap()
    }

    #[test]
    fn memos_are_kept_between_reviews() {
        let (memos, operator) = (Memos::default(), operator());
        let object = ObjectKey::numbered(1);
        for _ in 0..3 {
            let memo = memos.recall(&object, &operator);
            assert_eq!(number(&memo), 0);
            memos.keep(&object, &memo);
        }
        let other = memos.recall(&ObjectKey::numbered(2), &operator);
        assert_eq!(number(&other), 1);
    }

    #[test]
    fn reviews_and_workers_share_a_memo() {
        let (memos, operator) = (Memos::default(), operator());
        let object = ObjectKey::numbered(1);
        let memo = memos.recall(&object, &operator);
        assert_eq!(number(&memo), 0);
        memos.keep(&object, &memo);
        drop(memo);
        let worker = memos.hand_over(&object, &operator);
        assert_eq!(number(&worker), 0, "made before there was a worker");
        let memo = memos.recall(&object, &operator);
        assert_eq!(number(&memo), 0);
        memos.keep(&object, &memo);
        drop(memo);
        drop(worker);
        let memo = memos.recall(&object, &operator);
        assert_eq!(number(&memo), 1, "the object is gone, and its memo with it");
    }

    #[test]
    fn unused_memos_are_not_kept() {
        let (memos, operator) = (Memos::default(), operator());
        for index in 0..100_000 {
            let object = ObjectKey::numbered(index);
            let memo = memos.recall(&object, &operator);
            memos.keep(&object, &memo);
        }
        assert!(memos.0.lock().known.len() <= MIN_COLLECTED + 1, "{memos:?}");
    }

    #[test]
    fn oldest_memos_are_dropped() {
        let (memos, operator) = (Memos::default(), operator());
        for index in 0..3 * MAX_KEPT {
            let object = ObjectKey::numbered(index);
            let memo = memos.recall(&object, &operator);
            assert_eq!(number(&memo), index);
            memos.keep(&object, &memo);
        }
        assert_eq!(memos.0.lock().order.len(), MAX_KEPT);
        assert!(memos.0.lock().known.len() <= 2 * MAX_KEPT + 1, "{memos:?}");
        let newest = ObjectKey::numbered(3 * MAX_KEPT - 1);
        assert_eq!(number(&memos.recall(&newest, &operator)), 3 * MAX_KEPT - 1);
        let oldest = ObjectKey::numbered(0);
        assert_eq!(number(&memos.recall(&oldest, &operator)), 3 * MAX_KEPT);
    }
}
