//! Types of an index: static where it is declared, erased afterwards.

use std::any::{TypeId, type_name};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use kopf_engine::indexing::{self, AnyIndex};

use super::{IndexOf, IntoEntries};

/// The types of an index.
#[derive(Clone, Copy)]
pub(crate) struct IndexTypes {
    index: TypeId,
    /// The types of keys and values, for messages.
    pub(crate) entries: &'static str,
    make: fn() -> Arc<dyn AnyIndex>,
}

impl IndexTypes {
    /// Returns the types of the index of a function with this result.
    pub(crate) fn of<R: IntoEntries>() -> Self {
        Self::new::<R::Key, R::Value>()
    }

    /// Returns the types of this index.
    pub(crate) fn of_index<I: IndexOf>() -> Self {
        Self::new::<I::Key, I::Value>()
    }

    /// Returns the types of an index with these entries.
    pub(super) fn new<K, V>() -> Self
    where
        K: Clone + Eq + Hash + Send + Sync + 'static,
        V: Send + Sync + 'static,
    {
        Self {
            index: TypeId::of::<indexing::Index<K, V>>(),
            entries: type_name::<(K, V)>(),
            make: || Arc::new(indexing::Index::<K, V>::default()),
        }
    }

    pub(crate) fn is<K: 'static, V: 'static>(&self) -> bool {
        self.index == TypeId::of::<indexing::Index<K, V>>()
    }

    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.index == other.index
    }

    /// Creates an empty index.
    pub(crate) fn make(&self) -> Arc<dyn AnyIndex> {
        (self.make)()
    }
}

impl fmt::Debug for IndexTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexTypes{}", self.entries)
    }
}
