//! All indices of an operator, whatever is in them.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use kopf_core::handler::HandlerId;
use kopf_core::registry::KindHandlers;

use super::ObjectKey;

/// What a function has returned for an index: of a type that the front and its index agree on.
///
/// It goes to the `slot` of the call, as this very type. If a handler
/// of an index has succeeded and has left nothing there, the former entries of its object are kept.
pub type Entries = Box<dyn Any + Send>;

/// An index as the engine sees it. Its keys and values are the front's business.
///
/// It is called in the order of the versions of one object, and from several threads for several
/// objects. It must not block for long, and must not call functions of users that could.
pub trait AnyIndex: Any + Send + Sync {
    /// Makes these the entries of the object, instead of those before.
    ///
    /// # Errors
    /// If they are not what this index can keep.
    fn replace(&self, object: &ObjectKey, entries: Entries) -> Result<(), Mismatch>;

    /// Removes all entries of the object.
    fn discard(&self, object: &ObjectKey);
}

/// Entries that an index cannot keep: two handlers of one index return different things.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the index keeps entries of the type {expected}, and was given something else")]
pub struct Mismatch {
    /// The type of the entries that it keeps.
    pub expected: &'static str,
}

/// The indices of an operator by their names, which are the ids of their handlers. Cheap to clone.
#[derive(Clone, Default)]
pub struct Indices(Arc<HashMap<HandlerId, Arc<dyn AnyIndex>>>);

impl Indices {
    /// The index of this name.
    pub fn get(&self, id: &str) -> Option<&Arc<dyn AnyIndex>> {
        self.0.get(id)
    }

    /// The names of all indices, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &HandlerId> {
        self.0.keys()
    }

    /// Those which the handlers of one kind write to.
    pub(crate) fn of_kind<F>(&self, handlers: &KindHandlers<F>) -> KindIndices {
        let mut indices: Vec<(HandlerId, Arc<dyn AnyIndex>)> = Vec::new();
        for handler in &handlers.indexing {
            if indices.iter().all(|(id, _)| *id != handler.id)
                && let Some(index) = self.get(&handler.id)
            {
                indices.push((Arc::clone(&handler.id), Arc::clone(index)));
            }
        }
        KindIndices(indices)
    }
}

impl<I: Into<HandlerId>> FromIterator<(I, Arc<dyn AnyIndex>)> for Indices {
    fn from_iter<T: IntoIterator<Item = (I, Arc<dyn AnyIndex>)>>(indices: T) -> Self {
        let indices = indices.into_iter();
        Self(Arc::new(
            indices.map(|(id, index)| (id.into(), index)).collect(),
        ))
    }
}

impl fmt::Debug for Indices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// The indices which objects of one kind can be in.
#[derive(Clone, Default)]
pub(crate) struct KindIndices(Vec<(HandlerId, Arc<dyn AnyIndex>)>);

impl KindIndices {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(HandlerId, Arc<dyn AnyIndex>)> {
        self.0.iter()
    }

    /// The object is gone, or nobody knows any more.
    pub(crate) fn discard(&self, object: &ObjectKey) {
        for (_, index) in &self.0 {
            index.discard(object);
        }
    }
}

impl fmt::Debug for KindIndices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(id, _)| id))
            .finish()
    }
}
