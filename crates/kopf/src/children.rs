//! Children of the handled object: changed ones, existing ones, and their server-side apply.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::handler::HandlerKind;
use kopf_core::resource::Resource;
use kopf_engine::applying::{self, FieldOwnership};
#[doc(inline)]
pub use kopf_engine::applying::{Applied, Effect, Error as ApplyError};
use kopf_engine::invocation::{OperatorContext, OwnedObject};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::extract::{Context, Declared, Extract, OptionalExtract, Rejection, read};
use crate::objects::{Manifest, ObjectError, Referred};

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
/// declares with `owns` or [`on::child`](crate::on::child()), and the server-side
/// [apply](Self::apply) of further ones. It is a list of [`Child`].
///
/// The list is read from the memory of the operator, which watches these kinds anyway: no request is
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
/// // In a test of the function:
/// let children = Children::of_objects([json!({"kind": "Pod", "status": {"phase": "Running"}})]);
/// assert_eq!(children.of("Pod").count(), 1);
/// assert!(wait(children).is_err());
/// ```
#[derive(Clone)]
pub struct Children {
    existing: Vec<Child>,
    owner: Body,
    /// `None` in tests of handlers.
    operator: Option<Arc<OperatorContext>>,
    ownership: FieldOwnership,
}

/// A child that was not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// The child or its owner is not one object.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The child was not applied.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// There is no operator that could apply it.
    #[error("there is no operator to apply children: these were made by Children::of_objects()")]
    NoOperator,
}

impl Children {
    /// Returns children with these bodies, for unit tests of handlers. Further ones cannot be
    /// applied: test this with the lab of the crate `kopf-testing`.
    pub fn of_objects(objects: impl IntoIterator<Item = Value>) -> Self {
        Self {
            existing: objects.into_iter().map(Child::of).collect(),
            owner: Body::new(Value::Null),
            operator: None,
            ownership: FieldOwnership::default(),
        }
    }

    /// Returns the children of one kind, such as `Pod`.
    pub fn of(&self, kind: &str) -> impl Iterator<Item = &Child> {
        let is_meant =
            move |child: &&Child| child.resource().kind == kind || child.get("kind") == kind;
        self.existing.iter().filter(is_meant)
    }

    /// Creates or changes a child of the handled object by server-side apply. Writes nothing if
    /// nothing changes.
    ///
    /// The child gets an owner reference, the namespace and the labels of its owner, and the owner's
    /// name if it has none. The field manager is the setting `persistence.field_manager`; by
    /// default, the operator's name in its events.
    ///
    /// ```
    /// use kopf::Children;
    /// use kopf::prelude::*;
    ///
    /// #[kopf::on::create("kopfexamples")]
    /// #[kopf::on::update("kopfexamples")]
    /// async fn deploy(Spec(spec): Spec, children: Children) -> kopf::Result<()> {
    ///     let config = json!({
    ///         "apiVersion": "v1", "kind": "ConfigMap",
    ///         "data": {"size": spec["size"].to_string()},
    ///     });
    ///     children.apply(&config).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// The child is read first. It is written if it does not exist, if the manifest differs from the
    /// last applied one (an annotation contains its digest), or if other managers changed fields of
    /// the manifest (according to `metadata.managedFields`). Fields outside of the manifest are not
    /// changed.
    ///
    /// # Errors
    /// If other field managers own fields of the manifest; the error names them, and
    /// [`forced`](Self::forced) takes the fields over. Also for unknown kinds, for owners in other
    /// namespaces, and if the server rejects the manifest.
    pub async fn apply<M>(
        &self,
        child: &(impl Manifest<M> + ?Sized),
    ) -> Result<Applied, ChildError> {
        let manifest = child.to_json()?;
        let operator = self.operator.as_ref().ok_or(ChildError::NoOperator)?;
        let applied = applying::apply_child(operator, &self.owner, manifest, self.ownership);
        Ok(applied.await?)
    }

    /// Returns the same children, of which [`apply`](Self::apply) takes over the fields that belong
    /// to other managers.
    ///
    /// ```
    /// use kopf::Children;
    /// use kopf::prelude::*;
    ///
    /// #[kopf::on::create("kopfexamples")]
    /// async fn deploy(children: Children) -> kopf::Result<()> {
    ///     let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
    ///     children.forced().apply(&config).await?;
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn forced(&self) -> Self {
        Self {
            ownership: FieldOwnership::TakeOver,
            ..self.clone()
        }
    }

    /// Returns an empty list, with which [`apply`](Self::apply) makes children of another object.
    ///
    /// ```
    /// use kopf::k8s_openapi::api::core::v1::Pod;
    /// use kopf::prelude::*;
    /// use kopf::{Children, Object};
    ///
    /// #[kopf::on::create(Pod)]
    /// async fn annotate(pod: Object<Pod>, children: Children) -> kopf::Result<()> {
    ///     let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
    ///     children.owned_by(&pod)?.apply(&config).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// If it is not one object.
    pub fn owned_by<M>(&self, owner: &(impl Referred<M> + ?Sized)) -> Result<Self, ObjectError> {
        Ok(Self {
            existing: Vec::new(),
            owner: owner.body()?,
            operator: self.operator.clone(),
            ownership: self.ownership,
        })
    }
}

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Children").field(&self.existing).finish()
    }
}

impl Deref for Children {
    type Target = [Child];

    fn deref(&self) -> &[Child] {
        &self.existing
    }
}

impl<'a> IntoIterator for &'a Children {
    type Item = &'a Child;
    type IntoIter = std::slice::Iter<'a, Child>;

    fn into_iter(self) -> Self::IntoIter {
        self.existing.iter()
    }
}

impl Extract for Children {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let owner = context.object("Children")?.clone();
        let call = context.call("Children")?;
        Ok(Self {
            existing: call.children().into_iter().map(Child).collect(),
            owner,
            operator: Some(Arc::clone(&call.operator)),
            ownership: FieldOwnership::default(),
        })
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Children")
    }
}
