//! What handlers remember of the object, in this process only.

use std::any::type_name;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Context, Declared, Extract, FilterExtract, Rejection};
use crate::memos::Memos;

/// What handlers remember of the object, in this process only: one value of each type, shared by all
/// handlers, filters, daemons and timers of that object, and dropped together with it.
///
/// It begins as a clone of the operator's: of what [`startup`](crate::on) handlers have put there, or
/// of what was given to [`OperatorBuilder::memo`](crate::OperatorBuilder::memo); otherwise as the
/// default of its type. Activities, which have no object, get the operator's own.
///
/// ```
/// use kopf::prelude::*;
///
/// #[derive(Debug, Clone, Default)]
/// struct Counter { changes: u32 }
///
/// #[kopf::on::update("kopfexamples", when = is_early)]
/// fn update_fn(memo: Memo<Counter>) {
///     memo.write().changes += 1;
/// }
///
/// fn is_early(memo: Memo<Counter>) -> bool {
///     memo.read().changes < 10
/// }
/// # let memo = Memo::new(Counter { changes: 9 });
/// # assert!(is_early(memo.clone()));
/// # update_fn(memo.clone());
/// # assert!(!is_early(memo));
/// ```
///
/// For anything at all, there is `Memo<serde_json::Map<String, Value>>`.
///
/// The guards of [`read`](Self::read) and [`write`](Self::write) cannot be kept across an `.await`:
/// the compiler refuses such handlers. Nor are both to be held at once.
pub struct Memo<T>(Arc<RwLock<T>>);

/// What can be in a [`Memo`]: everything that has a default and can be cloned.
///
/// For types without a default, which come from
/// [`OperatorBuilder::memo`](crate::OperatorBuilder::memo) alone:
///
/// ```
/// use kopf::MemoValue;
///
/// #[derive(Clone)]
/// struct Connection { url: String }
///
/// impl MemoValue for Connection {
///     fn initial() -> Option<Self> { None }
///     fn inherit(&self) -> Self { self.clone() }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be in a memo",
    label = "not a value of memos",
    note = "values of memos are `Clone + Default + Send + Sync`; without a default, implement `kopf::MemoValue`"
)]
pub trait MemoValue: Sized + Send + Sync + 'static {
    /// What is in it at first, if the operator has none.
    fn initial() -> Option<Self>;

    /// What is in the memo of an object at first, if this is in the operator's.
    #[must_use]
    fn inherit(&self) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T: Clone + Default + Send + Sync + 'static> MemoValue for T {
    fn initial() -> Option<Self> {
        Some(Self::default())
    }

    fn inherit(&self) -> Self {
        self.clone()
    }
}

impl<T> Memo<T> {
    /// A memo of nobody: for tests of functions that ask for one.
    pub fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(value)))
    }

    pub(crate) fn from_shared(shared: Arc<RwLock<T>>) -> Self {
        Self(shared)
    }

    /// Looks at the value, for as long as the guard lives.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        // After a panic amid a change, there is still a value.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the value, for as long as the guard lives.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A clone of the value.
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.read().clone()
    }

    /// Puts another value. Returns the former one.
    pub fn replace(&self, value: T) -> T {
        std::mem::replace(&mut *self.write(), value)
    }
}

impl<T: MemoValue> Extract for Memo<T> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let memos = context.memo().get().downcast_ref::<Memos>();
        memos.and_then(Memos::get).ok_or_else(missing::<T>)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        if declared.front.seeds.has::<T>() || T::initial().is_some() {
            Ok(())
        } else {
            Err(missing::<T>())
        }
    }
}

impl<T: MemoValue> FilterExtract for Memo<T> {}

fn missing<T>() -> Rejection {
    Rejection::NoMemo {
        type_name: type_name::<T>(),
    }
}

impl<T> Clone for Memo<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Default> Default for Memo<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Memo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Memo").field(&*self.read()).finish()
    }
}
