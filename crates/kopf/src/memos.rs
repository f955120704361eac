//! Memos: in-memory values of objects and of the operator, by type, created on first use.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, RwLockReadGuard, RwLockWriteGuard};

use kopf_core::sync::{Mutex, RwLock};
use kopf_engine::memos::{Memo as Opaque, MemoFactory};

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

/// A value of any type, with its own lock.
type Shared = Arc<dyn Any + Send + Sync>;

/// Initial values of the operator's memo in each run.
#[derive(Clone, Default)]
pub(crate) struct Seeds(HashMap<TypeId, Arc<dyn Fn() -> Shared + Send + Sync>>);

impl Seeds {
    /// Adds a value. It replaces an earlier one of its type.
    pub(crate) fn add<T: MemoValue>(&mut self, value: T) {
        let seed = move || Arc::new(RwLock::new(value.inherit())) as Shared;
        self.0.insert(TypeId::of::<T>(), Arc::new(seed));
    }

    pub(crate) fn has<T: 'static>(&self) -> bool {
        self.0.contains_key(&TypeId::of::<T>())
    }
}

impl MemoFactory for Seeds {
    fn for_operator(&self) -> Opaque {
        let values = self.0.iter().map(|(id, seed)| (*id, seed()));
        Arc::new(Memos {
            operator: None,
            values: Mutex::new(values.collect()),
        })
    }

    fn for_object(&self, operator: &Opaque) -> Opaque {
        Arc::new(Memos {
            operator: Some(Arc::clone(operator)),
            values: Mutex::default(),
        })
    }
}

impl fmt::Debug for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seeds({})", self.0.len())
    }
}

/// The values of one object, or of the operator.
pub(crate) struct Memos {
    operator: Option<Opaque>,
    values: Mutex<HashMap<TypeId, Shared>>,
}

impl Memos {
    fn existing<T: Send + Sync + 'static>(&self) -> Option<Arc<RwLock<T>>> {
        let value = self.values.lock().get(&TypeId::of::<T>()).cloned()?;
        value.downcast().ok()
    }

    /// Returns the memo of this type. `None` if it has no initial value.
    pub(crate) fn get<T: MemoValue>(&self) -> Option<Memo<T>> {
        if let Some(existing) = self.existing() {
            return Some(Memo::from_shared(existing));
        }
        // User code runs without the lock.
        let operator = self.operator.as_ref();
        let inherited = operator
            .and_then(|memo| memo.downcast_ref::<Self>()?.existing::<T>())
            .map(|memo| Memo::from_shared(memo).read().inherit());
        let value: Shared = Arc::new(RwLock::new(inherited.or_else(T::initial)?));
        // A concurrent call may have created the value first.
        let value = Arc::clone(self.values.lock().entry(TypeId::of::<T>()).or_insert(value));
        value.downcast().ok().map(Memo::from_shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memos(opaque: &Opaque) -> &Memos {
        opaque.downcast_ref().unwrap()
    }

    #[test]
    fn objects_inherit_values_of_the_operator() {
        let mut seeds = Seeds::default();
        seeds.add("seed".to_owned());
        let operator = seeds.for_operator();
        let (one, other) = (seeds.for_object(&operator), seeds.for_object(&operator));
        memos(&one).get::<String>().unwrap().write().push('!');
        memos(&operator).get::<String>().unwrap().write().push('?');
        assert_eq!(memos(&one).get::<String>().unwrap().get(), "seed!");
        assert_eq!(memos(&other).get::<String>().unwrap().get(), "seed?");
        assert_eq!(
            memos(&seeds.for_operator()).get::<String>().unwrap().get(),
            "seed"
        );
    }

    #[test]
    fn types_are_separate_and_have_defaults() {
        let memo = Seeds::default().for_operator();
        *memos(&memo).get::<u32>().unwrap().write() += 1;
        assert_eq!(memos(&memo).get::<u32>().unwrap().replace(7), 1);
        assert_eq!(memos(&memo).get::<u32>().unwrap().get(), 7);
        assert_eq!(memos(&memo).get::<u64>().unwrap().get(), 0);
    }

    #[test]
    fn types_without_a_default_require_a_seed() {
        struct Connection(u32);
        impl MemoValue for Connection {
            fn initial() -> Option<Self> {
                None
            }
            fn inherit(&self) -> Self {
                Self(self.0)
            }
        }
        let mut seeds = Seeds::default();
        assert!(memos(&seeds.for_operator()).get::<Connection>().is_none());
        seeds.add(Connection(5));
        let object = seeds.for_object(&seeds.for_operator());
        assert_eq!(memos(&object).get::<Connection>().unwrap().read().0, 5);
    }
}
