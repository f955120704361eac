//! Children of the handled object: changed ones, existing ones, and their server-side apply.

use std::ops::Deref;
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::handler::HandlerKind;
use kopf_core::resource::Resource;
use kopf_engine::applying::{self, FieldOwnership};
#[doc(inline)]
pub use kopf_engine::applying::{Applied, Effect, Error as ApplyError};
use kopf_engine::invocation::OwnedObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::extract::{Context, Declared, Extract, OptionalExtract, Rejection, read};
use crate::objects::{Manifest, Referred};

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
        read("", self.0.body.value())
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

/// The existing objects that the handled object owns, of the kinds that some handler of the operator
/// declares with `owns` or [`on::child`](crate::on::child()). It is a list of [`Child`].
///
/// They are read from the memory of the operator, which watches these kinds anyway: no request is
/// sent, and the list can be a moment behind the server. Children of other kinds are never in it.
///
/// ```
/// use kopf::Children;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples", owns = ["pods"])]
/// fn wait(children: Children) -> kopf::Result<()> {
///     let is_running = |pod: &&kopf::Child| pod.status()["phase"] == "Running";
///     if children.of("Pod").filter(is_running).count() < 3 {
///         return Err(kopf::temporary("not all pods are running").delay(600));
///     }
///     Ok(())
/// }
///
/// let children = Children::of_objects([json!({"kind": "Pod", "status": {"phase": "Running"}})]);
/// assert_eq!(children.of("Pod").count(), 1);
/// ```
#[derive(Debug, Clone)]
pub struct Children(Vec<Child>);

impl Children {
    /// Returns children with these bodies, for unit tests of handlers.
    pub fn of_objects(objects: impl IntoIterator<Item = Value>) -> Self {
        Self(objects.into_iter().map(Child::of).collect())
    }

    /// Returns the children of one kind, such as `Pod`.
    pub fn of(&self, kind: &str) -> impl Iterator<Item = &Child> {
        let is_meant =
            move |child: &&Child| child.resource().kind == kind || child.get("kind") == kind;
        self.0.iter().filter(is_meant)
    }
}

impl Deref for Children {
    type Target = [Child];

    fn deref(&self) -> &[Child] {
        &self.0
    }
}

impl<'a> IntoIterator for &'a Children {
    type Item = &'a Child;
    type IntoIter = std::slice::Iter<'a, Child>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Extract for Children {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let children = context.call("Children")?.children().into_iter();
        Ok(Self(children.map(Child).collect()))
    }
}
/// Creates or changes a child of an object by server-side apply. Writes nothing if nothing
/// changes.
///
/// The child gets an owner reference, the namespace and the labels of its owner, and the owner's
/// name if it has none. The owner is any object, or [`Current`](crate::Current) for the handled
/// object. The field manager is the setting `persistence.field_manager`; by default, the operator's
/// name in its events.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// #[kopf::on::update("kopfexamples")]
/// async fn deploy(Spec(spec): Spec) -> kopf::Result<()> {
///     let config = json!({
///         "apiVersion": "v1", "kind": "ConfigMap",
///         "data": {"size": spec["size"].to_string()},
///     });
///     kopf::apply_child(&kopf::Current, &config).await?;
///     Ok(())
/// }
/// ```
///
/// The child is read first. It is written if it does not exist, if the manifest differs from the
/// last applied one (an annotation contains its digest), or if other managers changed fields of the
/// manifest (according to `metadata.managedFields`). Fields outside of the manifest are not
/// changed.
///
/// # Errors
/// If other field managers own fields of the manifest; the error names them, and
/// [`Applying::force`] takes the fields over. Also outside of handlers, for unknown kinds, for
/// owners in other namespaces, and if the server rejects the manifest.
pub async fn apply_child<M, N>(
    owner: &(impl Referred<M> + ?Sized),
    object: &(impl Manifest<N> + ?Sized),
) -> Result<Applied> {
    Applying::default().apply_child(owner, object).await
}

/// The options of [`apply_child`].
///
/// ```
/// use kopf::Body;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// async fn deploy(body: Body) -> kopf::Result<()> {
///     let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
///     kopf::Applying::default().force().apply_child(&body, &config).await?;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[must_use]
pub struct Applying(FieldOwnership);

impl Applying {
    /// Takes over the fields of the manifest that belong to other managers.
    ///
    /// ```
    /// use kopf::prelude::*;
    /// use kopf::{Applying, Body};
    ///
    /// #[kopf::on::create("kopfexamples")]
    /// async fn create_fn(body: Body) -> kopf::Result<()> {
    ///     let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
    ///     Applying::default().force().apply_child(&body, &config).await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn force(mut self) -> Self {
        self.0 = FieldOwnership::TakeOver;
        self
    }

    /// Applies a child: see [`apply_child`].
    ///
    /// # Errors
    /// Those of [`apply_child`], except for conflicts if they are forced.
    pub async fn apply_child<M, N>(
        self,
        owner: &(impl Referred<M> + ?Sized),
        object: &(impl Manifest<N> + ?Sized),
    ) -> Result<Applied> {
        let (owner, manifest) = (owner.body()?, object.to_json()?);
        self.send(owner, manifest).await
    }

    async fn send(self, owner: Body, manifest: Value) -> Result<Applied> {
        let call = kopf_engine::current().ok_or_else(|| {
            Error::message(
                "kopf::apply_child() was called outside of a handler: children are applied by the \
                 handler's operator",
            )
        })?;
        let applied = applying::apply_child(&call.operator, &owner, manifest, self.0);
        Ok(applied.await?)
    }
}
