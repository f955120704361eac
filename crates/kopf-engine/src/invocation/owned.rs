//! Objects owned by the object of a call.

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
