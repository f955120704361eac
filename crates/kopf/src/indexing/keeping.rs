//! What an index keeps: known by its types where it is declared, hidden afterwards.

use std::any::{TypeId, type_name};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use kopf_engine::indexing::{self, AnyIndex};

use super::{IndexOf, IntoEntries};

/// The types of an index.
#[derive(Clone, Copy)]
pub(crate) struct Keeping {
    index: TypeId,
    /// The types of keys and values, for messages.
    pub(crate) entries: &'static str,
    make: fn() -> Arc<dyn AnyIndex>,
}

impl Keeping {
    /// What a function keeps that returns this.
    pub(crate) fn of<R: IntoEntries>() -> Self {
        Self::new::<R::Key, R::Value>()
    }

    /// What is in this index.
    pub(crate) fn in_index<I: IndexOf>() -> Self {
        Self::new::<I::Key, I::Value>()
    }

    fn new<K, V>() -> Self
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

    /// An empty index.
    pub(crate) fn make(&self) -> Arc<dyn AnyIndex> {
        (self.make)()
    }
}

impl fmt::Debug for Keeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keeping{}", self.entries)
    }
}
