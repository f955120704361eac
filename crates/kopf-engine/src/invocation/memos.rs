//! Memos: whatever handlers want to remember of an object, in this process only.
//!
//! A memo is made when it is first asked for, so that objects nobody remembers anything of cost
//! nothing. What a memo is, is the front's business: to the engine, it is opaque.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

/// A memo of a front.
pub type Memo = Arc<dyn Any + Send + Sync>;

/// How a front makes memos.
pub trait MemoFactory: Send + Sync {
    /// The operator's own: made once in each run of it.
    fn for_operator(&self) -> Memo;

    /// That of an object: usually a copy of the operator's.
    fn for_object(&self, operator: &Memo) -> Memo;
}

/// Without a front, there is nothing in memos.
impl MemoFactory for () {
    fn for_operator(&self) -> Memo {
        Arc::new(())
    }

    fn for_object(&self, operator: &Memo) -> Memo {
        Arc::clone(operator)
    }
}

/// The memo of an operator or of one object. Cheap to clone: clones are the same memo.
#[derive(Clone)]
pub struct MemoCell(Arc<Cell>);

struct Cell {
    made: OnceLock<Memo>,
    factory: Arc<dyn MemoFactory>,
    operator: Option<MemoCell>,
}

impl MemoCell {
    /// The memo of an operator.
    pub fn of_operator(factory: Arc<dyn MemoFactory>) -> Self {
        Self(Arc::new(Cell {
            made: OnceLock::new(),
            factory,
            operator: None,
        }))
    }

    /// The memo of an object of the operator whose memo this is.
    #[must_use]
    pub fn of_object(&self) -> Self {
        Self(Arc::new(Cell {
            made: OnceLock::new(),
            factory: Arc::clone(&self.0.factory),
            operator: Some(self.clone()),
        }))
    }

    /// The memo; it is made now, if nobody has asked for it before.
    pub fn get(&self) -> &Memo {
        self.0.made.get_or_init(|| match &self.0.operator {
            Some(operator) => self.0.factory.for_object(operator.get()),
            None => self.0.factory.for_operator(),
        })
    }

    /// Whether nobody has asked for it, and nobody else can.
    pub(crate) fn is_needless(&self) -> bool {
        !self.is_made() && self.is_lonely()
    }

    /// Whether somebody has asked for it.
    pub(crate) fn is_made(&self) -> bool {
        self.0.made.get().is_some()
    }

    /// Whether nobody else has it.
    pub(crate) fn is_lonely(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// What knows of the memo, but does not keep it.
    pub(crate) fn downgrade(&self) -> WeakMemo {
        WeakMemo(Arc::downgrade(&self.0))
    }
}

/// Knows of a memo that others have.
pub(crate) struct WeakMemo(Weak<Cell>);

impl WeakMemo {
    /// The memo, if somebody still has it.
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

    /// Counts how many memos it has made.
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
    fn memos_are_made_once_when_they_are_asked_for() {
        let factory = Arc::new(Counting::default());
        let operator = MemoCell::of_operator(Arc::clone(&factory) as _);
        let (one, other) = (operator.of_object(), operator.of_object());
        assert_eq!(factory.0.load(Ordering::SeqCst), 0);
        let pair = |cell: &MemoCell| *cell.get().downcast_ref::<(usize, usize)>().unwrap();
        assert_eq!(pair(&one), (0, 1));
        assert_eq!(pair(&one.clone()), (0, 1), "the same one");
        assert_eq!(pair(&other), (0, 2));
    }

    #[test]
    fn a_memo_is_needless_if_nobody_has_it() {
        let operator = MemoCell::of_operator(Arc::new(()));
        let cell = operator.of_object();
        assert!(cell.is_needless());
        let clone = cell.clone();
        assert!(!cell.is_needless(), "somebody can still ask");
        drop(clone);
        cell.get();
        assert!(!cell.is_needless(), "there is something in it");
    }
}
