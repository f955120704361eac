//! Objects owned by the object of a call.

use std::fmt;
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::resource::Resource;

/// A version of an object that is owned by the handled object.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OwnedObject {
    /// Its resource.
    pub resource: Arc<Resource>,
    /// The type of the event that contained the version.
    pub event: EventType,
    /// The version; for deleted objects, the last one.
    pub body: Body,
}

/// The existing objects that handled objects own.
pub(crate) trait FindChildren: fmt::Debug + Send + Sync {
    /// Returns the newest versions of the existing children of an object, in the order of their last
    /// changes.
    fn children_of(&self, resource: &Resource, owner: &Body) -> Vec<Arc<OwnedObject>>;
}

/// The children in contexts without watched objects.
#[derive(Debug)]
pub(super) struct NoChildren;

impl FindChildren for NoChildren {
    fn children_of(&self, _: &Resource, _: &Body) -> Vec<Arc<OwnedObject>> {
        Vec::new()
    }
}

impl OwnedObject {
    /// Creates a version.
    pub fn new(resource: Arc<Resource>, event: EventType, body: Body) -> Self {
        Self {
            resource,
            event,
            body,
        }
    }

    /// Returns `true` if both are versions of one object.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self.body.uid(), other.body.uid()) {
            (Some(one), Some(another)) => one == another,
            _ => {
                self.resource == other.resource
                    && self.body.namespace() == other.body.namespace()
                    && self.body.name() == other.body.name()
            }
        }
    }
}
