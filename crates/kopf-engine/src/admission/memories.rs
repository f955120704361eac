//! Memos of objects that are asked about: the same ones that other handlers of the objects have.
//!
//! An object that is watched has its memo with its worker, and with its stream when it rests. Here it
//! is only known of it, weakly. A memo that was made for a request, and that nobody else has, is kept
//! here: until the object gets a worker, which takes it over, or until there are too many of them,
//! as can be with kinds that are not watched. Then the oldest ones are forgotten.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::indexing::ObjectKey;
use crate::memos::{MemoCell, WeakMemo};

/// How many memos are kept that nobody else has.
const KEPT: usize = 10_000;

/// Below this number, nothing is looked through.
const FEW: usize = 1_024;

/// Cheap to clone: clones are the same memories.
#[derive(Clone, Default)]
pub(crate) struct Memos(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    known: HashMap<ObjectKey, Known>,
    /// Those that are kept, the oldest first; some of them are not kept any more.
    order: VecDeque<ObjectKey>,
    /// How many can be known before those are forgotten that nobody has.
    limit: usize,
}

struct Known {
    memo: WeakMemo,
    kept: Option<MemoCell>,
}

impl Memos {
    /// The memo of an object; a new one if nobody has it.
    pub(super) fn recall(&self, object: &ObjectKey, operator: &MemoCell) -> MemoCell {
        let mut inner = self.lock();
        if let Some(memo) = inner.known.get(object).and_then(Known::memo) {
            return memo;
        }
        let memo = operator.of_object();
        inner.learn(object, &memo);
        memo
    }

    /// The request is over: keeps the memo if there is something in it that nobody else has.
    pub(super) fn keep(&self, object: &ObjectKey, memo: &MemoCell) {
        let mut inner = self.lock();
        if !memo.is_made() || !memo.is_lonely() {
            return;
        }
        inner.learn(object, memo);
        if let Some(known) = inner.known.get_mut(object)
            && known.kept.is_none()
        {
            known.kept = Some(memo.clone());
            inner.order.push_back(object.clone());
        }
        while inner.order.len() > KEPT {
            let oldest = inner.order.pop_front();
            if let Some(known) = oldest.and_then(|oldest| inner.known.get_mut(&oldest)) {
                known.kept = None;
            }
        }
    }

    /// The memo for a worker of the object, who has it from now on.
    pub(crate) fn hand_over(&self, object: &ObjectKey, operator: &MemoCell) -> MemoCell {
        let memo = self.recall(object, operator);
        let mut inner = self.lock();
        let kept = inner
            .known
            .get_mut(object)
            .and_then(|known| known.kept.take());
        if kept.is_some() {
            // Otherwise, the place in the row would be that of another one later.
            inner.order.retain(|other| other != object);
        }
        memo
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        if self.known.len() > self.limit.max(FEW) {
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
        write!(f, "Memos({} known)", self.lock().known.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::memos::{Memo, MemoFactory};

    /// Every memo has a number of its own.
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
    fn what_is_made_in_one_request_is_there_in_the_next_one() {
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
    fn requests_and_workers_have_the_same_memo() {
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
    fn what_nobody_asks_for_is_not_kept() {
        let (memos, operator) = (Memos::default(), operator());
        for index in 0..100_000 {
            let object = ObjectKey::numbered(index);
            let memo = memos.recall(&object, &operator);
            memos.keep(&object, &memo);
        }
        assert!(memos.lock().known.len() <= FEW + 1, "{memos:?}");
    }

    #[test]
    fn not_everything_can_be_kept() {
        let (memos, operator) = (Memos::default(), operator());
        for index in 0..3 * KEPT {
            let object = ObjectKey::numbered(index);
            let memo = memos.recall(&object, &operator);
            assert_eq!(number(&memo), index);
            memos.keep(&object, &memo);
        }
        assert_eq!(memos.lock().order.len(), KEPT);
        assert!(memos.lock().known.len() <= 2 * KEPT + 1, "{memos:?}");
        let newest = ObjectKey::numbered(3 * KEPT - 1);
        assert_eq!(number(&memos.recall(&newest, &operator)), 3 * KEPT - 1);
        let oldest = ObjectKey::numbered(0);
        assert_eq!(number(&memos.recall(&oldest, &operator)), 3 * KEPT);
    }
}
