//! Memos: in-memory stores of handlers, one per object and one for the operator.
//!
//! A memo is created on first use, so objects without one cost nothing. Its type is defined by the
//! frontend and opaque to the engine.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

/// A memo of a frontend.
pub type Memo = Arc<dyn Any + Send + Sync>;

/// Factory of memos of a frontend.
pub trait MemoFactory: Send + Sync {
    /// Creates the operator's own memo, once per run.
    fn for_operator(&self) -> Memo;

    /// Creates the memo of an object: usually a copy of the operator's.
    fn for_object(&self, operator: &Memo) -> Memo;
}

/// Creates empty memos.
impl MemoFactory for () {
    fn for_operator(&self) -> Memo {
        Arc::new(())
    }

    fn for_object(&self, operator: &Memo) -> Memo {
        Arc::clone(operator)
    }
}

/// The memo of an operator or of one object. Cheap to clone: clones share the memo.
#[derive(Clone)]
pub struct MemoCell(Arc<Cell>);

struct Cell {
    made: OnceLock<Memo>,
    factory: Arc<dyn MemoFactory>,
    operator: Option<MemoCell>,
}

impl MemoCell {
    /// Returns the cell of an operator's memo.
    pub fn of_operator(factory: Arc<dyn MemoFactory>) -> Self {
        Self(Arc::new(Cell {
            made: OnceLock::new(),
            factory,
            operator: None,
        }))
    }

    /// Returns a new cell for the memo of an object of this operator.
    #[must_use]
    pub fn of_object(&self) -> Self {
        Self(Arc::new(Cell {
            made: OnceLock::new(),
            factory: Arc::clone(&self.0.factory),
            operator: Some(self.clone()),
        }))
    }

    /// Returns the memo, and creates it on first use.
    pub fn get(&self) -> &Memo {
        self.0.made.get_or_init(|| match &self.0.operator {
            Some(operator) => self.0.factory.for_object(operator.get()),
            None => self.0.factory.for_operator(),
        })
    }

    /// Returns `true` if the memo was never used and this cell has no clones.
    pub(crate) fn is_unused(&self) -> bool {
        !self.is_made() && self.is_unshared()
    }

    /// Returns `true` if the memo was created.
    pub(crate) fn is_made(&self) -> bool {
        self.0.made.get().is_some()
    }

    /// Returns `true` if the cell has no clones.
    pub(crate) fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Returns a weak reference.
    pub(crate) fn downgrade(&self) -> WeakMemo {
        WeakMemo(Arc::downgrade(&self.0))
    }
}

/// A weak reference to a memo.
pub(crate) struct WeakMemo(Weak<Cell>);

impl WeakMemo {
    /// Returns the memo, if any cell of it still exists.
    pub(crate) fn upgrade(&self) -> Option<MemoCell> {
        self.0.upgrade().map(MemoCell)
    }
}

impl fmt::Debug for MemoCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.made.get() {
            Some(_) => "MemoCell(made)",
            None => "MemoCell",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A factory that counts its memos.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl MemoFactory for Counting {
        fn for_operator(&self) -> Memo {
            Arc::new(self.0.fetch_add(1, Ordering::SeqCst))
        }

        fn for_object(&self, operator: &Memo) -> Memo {
            let operator = operator.downcast_ref::<usize>().unwrap();
            Arc::new((*operator, self.0.fetch_add(1, Ordering::SeqCst)))
        }
    }

    #[test]
    fn memos_are_created_once_on_first_use() {
        let factory = Arc::new(Counting::default());
        let operator = MemoCell::of_operator(Arc::clone(&factory) as _);
        let (one, other) = (operator.of_object(), operator.of_object());
        assert_eq!(factory.0.load(Ordering::SeqCst), 0);
        let pair = |cell: &MemoCell| *cell.get().downcast_ref::<(usize, usize)>().unwrap();
        assert_eq!(pair(&one), (0, 1));
        assert_eq!(pair(&one.clone()), (0, 1), "the same memo");
        assert_eq!(pair(&other), (0, 2));
    }

    #[test]
    fn a_memo_is_unused_without_content_and_clones() {
        let operator = MemoCell::of_operator(Arc::new(()));
        let cell = operator.of_object();
        assert!(cell.is_unused());
        let clone = cell.clone();
        assert!(!cell.is_unused(), "a clone exists");
        drop(clone);
        cell.get();
        assert!(!cell.is_unused(), "the memo is created");
    }
}
