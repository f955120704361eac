//! The owned object of [`on::child`](crate::on::child()) handlers.

use std::ops::Deref;
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::handler::HandlerKind;
use kopf_core::resource::Resource;
use kopf_engine::invocation::OwnedObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Context, Declared, Extract, OptionalExtract, Rejection, typed};

/// The changed object that the handled object owns, for handlers of
/// [`on::child`](crate::on::child()). It is a [`Body`].
///
/// ```
/// use kopf::Child;
/// use kopf::prelude::*;
///
/// #[kopf::on::child("pods", parent = "kopfexamples")]
/// fn changed(child: Child, logger: Logger) {
///     let phase = &child.status()["phase"];
///     logger.info(format_args!("pod {:?} is {phase}", child.name()));
/// }
///
/// let child = Child::of(json!({"metadata": {"name": "web"}, "status": {"phase": "Running"}}));
/// assert!(!child.is_deleted());
/// ```
#[derive(Debug, Clone)]
pub struct Child(Arc<OwnedObject>);

impl Child {
    /// Returns a modified child, for unit tests of handlers.
    pub fn of(object: Value) -> Self {
        let (resource, event) = (Arc::new(Resource::default()), EventType::Modified);
        Self(Arc::new(OwnedObject::new(
            resource,
            event,
            Body::new(object),
        )))
    }

    pub(super) fn from_owned(owned: Arc<OwnedObject>) -> Self {
        Self(owned)
    }

    /// Returns the body.
    pub fn body(&self) -> &Body {
        &self.0.body
    }

    /// Returns the resource.
    pub fn resource(&self) -> &Arc<Resource> {
        &self.0.resource
    }

    /// Returns the type of the event: `Listed` for children that exist when the operator starts.
    pub fn event(&self) -> EventType {
        self.0.event
    }

    /// Returns `true` if the child is deleted. The body is its last version.
    pub fn is_deleted(&self) -> bool {
        self.0.event == EventType::Deleted
    }

    /// Parses the body as a type, such as `Deployment`.
    ///
    /// # Errors
    /// If the body does not fit the type, with the path of the mismatch.
    pub fn parse<K: DeserializeOwned>(&self) -> Result<K, Rejection> {
        typed::read("", self.0.body.value())
    }
}

impl Deref for Child {
    type Target = Body;

    fn deref(&self) -> &Body {
        &self.0.body
    }
}

impl Extract for Child {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let call = context.call("Child")?;
        let child = call.child.clone().map(Self);
        child.ok_or(Rejection::NoChild)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        if declared.kind == HandlerKind::Child {
            Ok(())
        } else {
            Err(Rejection::NoChild)
        }
    }
}

impl OptionalExtract for Child {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        Ok(context.call("Child")?.child.clone().map(Self))
    }
}
