//! The in-memory store of the object.

use std::any::type_name;
use std::fmt;
use std::sync::{Arc, RwLockReadGuard, RwLockWriteGuard};

use kopf_core::sync::RwLock;

use super::{Context, Declared, Extract, FilterExtract, Rejection};
use crate::memos::Memos;

/// The in-memory store of the object: one value per type, shared by all handlers, filters, daemons
/// and timers of the object, and dropped when the object is deleted. It does not survive restarts.
///
/// The initial value is a clone of the operator's memo, as set by [`startup`](crate::on) handlers
/// or by [`OperatorBuilder::memo`](crate::OperatorBuilder::memo); otherwise the default of its
/// type. Activities, which have no object, get the operator's memo.
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
/// For arbitrary data, use `Memo<serde_json::Map<String, Value>>`.
///
/// The guards of [`read`](Self::read) and [`write`](Self::write) cannot be held across an `.await`:
/// the compiler rejects such handlers. Holding both at once can deadlock.
pub struct Memo<T>(Arc<RwLock<T>>);

/// A value of a [`Memo`]: any type with a default that can be cloned.
///
/// Types without a default get their values only from
/// [`OperatorBuilder::memo`](crate::OperatorBuilder::memo):
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
    label = "not a memo value",
    note = "memo values are `Clone + Default + Send + Sync`; without a default, implement `kopf::MemoValue`"
)]
pub trait MemoValue: Sized + Send + Sync + 'static {
    /// Returns the initial value if the operator's memo has none.
    fn initial() -> Option<Self>;

    /// Returns the initial value for an object from this value of the operator's memo.
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
    /// Creates a memo, for tests.
    pub fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(value)))
    }

    pub(crate) fn from_shared(shared: Arc<RwLock<T>>) -> Self {
        Self(shared)
    }

    /// Locks the value for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        // A panic during a write does not invalidate the value.
        self.0.read()
    }

    /// Locks the value for writing.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write()
    }

    /// Returns a clone of the value.
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.read().clone()
    }

    /// Replaces the value. Returns the former one.
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
