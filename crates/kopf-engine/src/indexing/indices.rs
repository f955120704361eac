//! The indices of an operator, independent of the types of their entries.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use kopf_core::handler::HandlerId;
use kopf_core::registry::ResourceHandlers;

use super::ObjectKey;

/// Result of an index handler, of a type that is defined by the frontend.
///
/// The frontend stores it in the `slot` of the call, as this type. If a handler succeeds and the
/// slot is empty, the previous entries of the object are kept.
pub type Entries = Box<dyn Any + Send>;

/// An index. The types of its keys and values are defined by the frontend.
///
/// Calls for one object are made in the order of its versions; calls for several objects can be
/// made from several threads. Implementations must not block.
pub trait AnyIndex: Any + Send + Sync {
    /// Replaces the entries of the object.
    ///
    /// # Errors
    /// If the entries have another type than those of the index.
    fn replace(&self, object: &ObjectKey, entries: Entries) -> Result<(), Mismatch>;

    /// Removes all entries of the object.
    fn discard(&self, object: &ObjectKey);
}

/// Type mismatch of entries: two handlers of one index return different types.
#[derive(Debug, Clone, thiserror::Error)]
#[error("invalid entries of an index: expected the type {expected}")]
pub struct Mismatch {
    /// The type of the entries of the index.
    pub expected: &'static str,
}

/// The indices of an operator by their names, which are the ids of their handlers. Cheap to clone.
#[derive(Clone, Default)]
pub struct Indices(Arc<HashMap<HandlerId, Arc<dyn AnyIndex>>>);

impl Indices {
    /// Returns the index of this name.
    pub fn get(&self, id: &str) -> Option<&Arc<dyn AnyIndex>> {
        self.0.get(id)
    }

    /// Returns the names of all indices, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &HandlerId> {
        self.0.keys()
    }

    /// Returns the indices of the handlers of one resource.
    pub(crate) fn of_resource<F>(&self, handlers: &ResourceHandlers<F>) -> ResourceIndices {
        let mut indices: Vec<(HandlerId, Arc<dyn AnyIndex>)> = Vec::new();
        for handler in &handlers.indexing {
            if indices.iter().all(|(id, _)| *id != handler.id)
                && let Some(index) = self.get(&handler.id)
            {
                indices.push((Arc::clone(&handler.id), Arc::clone(index)));
            }
        }
        ResourceIndices(indices)
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

/// The indices of one resource.
#[derive(Clone, Default)]
pub(crate) struct ResourceIndices(Vec<(HandlerId, Arc<dyn AnyIndex>)>);

impl ResourceIndices {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(HandlerId, Arc<dyn AnyIndex>)> {
        self.0.iter()
    }

    /// Removes the entries of an object that is deleted or no longer watched.
    pub(crate) fn discard(&self, object: &ObjectKey) {
        for (_, index) in &self.0 {
            index.discard(object);
        }
    }
}

impl fmt::Debug for ResourceIndices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(id, _)| id))
            .finish()
    }
}
