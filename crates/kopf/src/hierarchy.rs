//! Relations between objects: owner references, names, namespaces, labels.
//!
//! The functions accept JSON, types of `k8s-openapi`, custom resources, and lists of these: see
//! [`Manifest`] and [`Referred`]. An error changes none of the objects. No requests are sent.
//!
//! In handlers, [`Current`] stands for the handled object: as an owner, and as the source of a
//! name, a namespace and labels.

use kopf_core::field::FieldPath;
use kopf_core::hierarchy as core;
use serde_json::{Map, Value};

use crate::fields::IntoFieldPath;
use crate::objects::{Current, Manifest, ObjectError, Referred};

/// Labels for [`label`]: pairs of keys and values, a map, or [`Current`] for the labels of the
/// handled object.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source of labels",
    label = "not labels",
    note = "expected a list or a map of strings to strings, or `kopf::Current`"
)]
pub trait IntoLabels {
    /// Returns the labels.
    fn into_labels(self) -> Result<Map<String, Value>, ObjectError>;
}

#[diagnostic::do_not_recommend]
impl<I, K, V> IntoLabels for I
where
    I: IntoIterator<Item = (K, V)>,
    K: Into<String>,
    V: Into<String>,
{
    fn into_labels(self) -> Result<Map<String, Value>, ObjectError> {
        let labels = self.into_iter();
        let labels = labels.map(|(key, value)| (key.into(), Value::String(value.into())));
        Ok(labels.collect())
    }
}

impl IntoLabels for Current {
    fn into_labels(self) -> Result<Map<String, Value>, ObjectError> {
        Ok(self.body()?.labels().clone())
    }
}

/// A name for [`harmonize_naming`]: a string, or [`Current`] for the name of the handled object.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a name",
    label = "not a name",
    note = "expected a string or `kopf::Current`"
)]
pub trait IntoName {
    /// Returns the name.
    fn into_name(self) -> Result<String, ObjectError>;
}

impl IntoName for &str {
    fn into_name(self) -> Result<String, ObjectError> {
        Ok(self.to_owned())
    }
}

impl IntoName for &String {
    fn into_name(self) -> Result<String, ObjectError> {
        Ok(self.clone())
    }
}

impl IntoName for String {
    fn into_name(self) -> Result<String, ObjectError> {
        Ok(self)
    }
}

impl IntoName for Current {
    fn into_name(self) -> Result<String, ObjectError> {
        let body = self.body()?;
        let name = body.name().map(str::to_owned);
        name.ok_or(ObjectError::Nameless)
    }
}

/// A namespace for [`adjust_namespace`]: a string, `None` for cluster-scoped objects, or
/// [`Current`] for the namespace of the handled object.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a namespace",
    label = "not a namespace",
    note = "expected a string, an `Option` of a string, or `kopf::Current`"
)]
pub trait IntoNamespace {
    /// Returns the namespace.
    fn into_namespace(self) -> Result<Option<String>, ObjectError>;
}

impl IntoNamespace for &str {
    fn into_namespace(self) -> Result<Option<String>, ObjectError> {
        Ok(Some(self.to_owned()))
    }
}

impl IntoNamespace for &String {
    fn into_namespace(self) -> Result<Option<String>, ObjectError> {
        Ok(Some(self.clone()))
    }
}

impl IntoNamespace for String {
    fn into_namespace(self) -> Result<Option<String>, ObjectError> {
        Ok(Some(self))
    }
}

impl<T: IntoNamespace> IntoNamespace for Option<T> {
    fn into_namespace(self) -> Result<Option<String>, ObjectError> {
        self.map_or(Ok(None), IntoNamespace::into_namespace)
    }
}

impl IntoNamespace for Current {
    fn into_namespace(self) -> Result<Option<String>, ObjectError> {
        let body = self.body()?;
        Ok(body.namespace().map(str::to_owned))
    }
}

/// Makes objects children of their owner: sets the owner reference, so that they are deleted with
/// it, and its namespace, its labels, and a name generated from its name.
///
/// [`Adoption`] has further options.
///
/// ```
/// use kopf::k8s_openapi::api::core::v1::Pod;
/// use kopf::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let owner = json!({
///     "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
///     "metadata": {"name": "parent", "namespace": "ns", "uid": "u1", "labels": {"a": "b"}},
/// });
///
/// let mut json = json!({"apiVersion": "v1", "kind": "Pod"});
/// kopf::adopt(&mut json, &owner)?;
/// assert_eq!(json["metadata"]["generateName"], "parent-");
/// assert_eq!(json["metadata"]["labels"]["a"], "b");
///
/// let mut pod = Pod::default();
/// kopf::adopt(&mut pod, &owner)?;
/// assert_eq!(pod.metadata.namespace.as_deref(), Some("ns"));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the owner has no name or does not exist in the cluster yet, or if a value is not an object.
pub fn adopt<M, N>(
    objs: &mut (impl Manifest<M> + ?Sized),
    owner: &(impl Referred<N> + ?Sized),
) -> Result<(), ObjectError> {
    Adoption::default().adopt(objs, owner)
}

/// Options of [`adopt`].
///
/// ```
/// use kopf::Adoption;
/// use kopf::prelude::*;
///
/// # let owner = json!({"metadata": {"name": "parent", "uid": "u1", "labels": {"a": "b"}}});
/// let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {}}});
/// Adoption::default().strict().nested("spec.template").adopt(&mut deployment, &owner)?;
/// assert_eq!(deployment["metadata"]["name"], "parent");
/// assert_eq!(deployment["spec"]["template"]["metadata"]["labels"]["a"], "b");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Adoption(core::Adoption);

impl Adoption {
    /// Replaces names, namespaces and labels that the objects already have.
    pub fn forced(mut self) -> Self {
        self.0.forced = true;
        self
    }

    /// Uses the exact name of the owner instead of generated names with this prefix.
    pub fn strict(mut self) -> Self {
        self.0.strict = true;
        self
    }

    /// Adds a nested field that is labelled as well, such as `spec.template`.
    pub fn nested(mut self, field: impl IntoFieldPath) -> Self {
        self.0.nested.push(field.into_field_path());
        self
    }

    /// Makes objects children of their owner: see [`adopt`].
    ///
    /// # Errors
    /// Those of [`adopt`].
    pub fn adopt<M, N>(
        &self,
        objs: &mut (impl Manifest<M> + ?Sized),
        owner: &(impl Referred<N> + ?Sized),
    ) -> Result<(), ObjectError> {
        let owner = owner.body()?;
        objs.change(&|objs| core::adopt(objs, &owner, &self.0))
    }
}

/// Sets labels that the objects do not have yet.
///
/// [`Labelling`] has further options.
///
/// ```
/// use kopf::prelude::*;
///
/// let mut pod = json!({"metadata": {"labels": {"app": "web"}}});
/// kopf::label(&mut pod, [("app", "other"), ("tier", "front")])?;
/// assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "tier": "front"}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// With the labels, the name and the namespace of the handled object:
///
/// ```
/// use kopf::Current;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn() -> kopf::Result<()> {
///     let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
///     kopf::label(&mut pod, Current)?;
///     kopf::harmonize_naming(&mut pod, Current)?;
///     kopf::adjust_namespace(&mut pod, Current)?;
///     Ok(())
/// }
/// ```
///
/// # Errors
/// If a value is not an object, or if [`Current`] is used outside of handlers.
pub fn label<M>(
    objs: &mut (impl Manifest<M> + ?Sized),
    labels: impl IntoLabels,
) -> Result<(), ObjectError> {
    Labelling::default().label(objs, labels)
}

/// Options of [`label`].
///
/// ```
/// use kopf::Labelling;
/// use kopf::prelude::*;
///
/// let mut pod = json!({"metadata": {"labels": {"app": "web"}}});
/// Labelling::default().forced().label(&mut pod, [("app", "other")])?;
/// assert_eq!(pod["metadata"]["labels"]["app"], "other");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Labelling(core::Labelling);

impl Labelling {
    /// Replaces labels that the objects already have.
    pub fn forced(mut self) -> Self {
        self.0.forced = true;
        self
    }

    /// Adds a nested field that is labelled as well, such as `spec.template`.
    pub fn nested(mut self, field: impl IntoFieldPath) -> Self {
        let field: FieldPath = field.into_field_path();
        self.0.nested.push(field);
        self
    }

    /// Sets labels: see [`label`].
    ///
    /// # Errors
    /// Those of [`label`].
    pub fn label<M>(
        &self,
        objs: &mut (impl Manifest<M> + ?Sized),
        labels: impl IntoLabels,
    ) -> Result<(), ObjectError> {
        let labels = labels.into_labels()?;
        objs.change(&|objs| core::label(objs, &labels, &self.0))
    }
}

/// Sets generated names with this prefix on objects without a name.
///
/// [`Naming`] has further options.
///
/// ```
/// use kopf::prelude::*;
///
/// let mut pod = json!({});
/// kopf::harmonize_naming(&mut pod, "parent")?;
/// assert_eq!(pod["metadata"]["generateName"], "parent-");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a value is not an object, or if [`Current`] is used outside of handlers.
pub fn harmonize_naming<M>(
    objs: &mut (impl Manifest<M> + ?Sized),
    name: impl IntoName,
) -> Result<(), ObjectError> {
    Naming::default().harmonize_naming(objs, name)
}

/// Options of [`harmonize_naming`].
///
/// ```
/// use kopf::Naming;
/// use kopf::prelude::*;
///
/// let mut pod = json!({"metadata": {"name": "own"}});
/// Naming::default().forced().strict().harmonize_naming(&mut pod, "parent")?;
/// assert_eq!(pod["metadata"]["name"], "parent");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[must_use]
pub struct Naming(core::Naming);

impl Naming {
    /// Replaces names that the objects already have.
    pub fn forced(mut self) -> Self {
        self.0.forced = true;
        self
    }

    /// Uses the exact name instead of generated names with this prefix.
    pub fn strict(mut self) -> Self {
        self.0.strict = true;
        self
    }

    /// Names objects: see [`harmonize_naming`].
    ///
    /// # Errors
    /// Those of [`harmonize_naming`].
    pub fn harmonize_naming<M>(
        self,
        objs: &mut (impl Manifest<M> + ?Sized),
        name: impl IntoName,
    ) -> Result<(), ObjectError> {
        let name = name.into_name()?;
        objs.change(&|objs| core::harmonize_naming(objs, &name, self.0))
    }
}

/// Sets the namespace of objects that have none.
///
/// ```
/// use kopf::prelude::*;
///
/// let mut pods = json!([{}, {"metadata": {"namespace": "own"}}]);
/// kopf::adjust_namespace(&mut pods, "ns")?;
/// assert_eq!(pods[0]["metadata"]["namespace"], "ns");
/// assert_eq!(pods[1]["metadata"]["namespace"], "own");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a value is not an object, or if [`Current`] is used outside of handlers.
pub fn adjust_namespace<M>(
    objs: &mut (impl Manifest<M> + ?Sized),
    namespace: impl IntoNamespace,
) -> Result<(), ObjectError> {
    let namespace = namespace.into_namespace()?;
    objs.change(&|objs| core::adjust_namespace(objs, namespace.as_deref(), false))
}

/// Sets the namespace of objects, even if they have one.
///
/// ```
/// use kopf::prelude::*;
///
/// let mut pod = json!({"metadata": {"namespace": "own"}});
/// kopf::force_namespace(&mut pod, "ns")?;
/// assert_eq!(pod["metadata"]["namespace"], "ns");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a value is not an object, or if [`Current`] is used outside of handlers.
pub fn force_namespace<M>(
    objs: &mut (impl Manifest<M> + ?Sized),
    namespace: impl IntoNamespace,
) -> Result<(), ObjectError> {
    let namespace = namespace.into_namespace()?;
    objs.change(&|objs| core::adjust_namespace(objs, namespace.as_deref(), true))
}

/// Adds an owner reference to objects, so that Kubernetes deletes them after their owner. By
/// default, the owner is the controller, and the objects block its foreground deletion.
/// [`Ownership`] has further options.
///
/// ```
/// use kopf::prelude::*;
///
/// # let owner = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "parent", "uid": "u1"}});
/// let mut pod = json!({});
/// kopf::append_owner_reference(&mut pod, &owner)?;
/// let reference = &pod["metadata"]["ownerReferences"][0];
/// assert_eq!((&reference["uid"], &reference["controller"]), (&json!("u1"), &json!(true)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the owner does not exist in the cluster yet, or if a value is not an object.
pub fn append_owner_reference<M, N>(
    objs: &mut (impl Manifest<M> + ?Sized),
    owner: &(impl Referred<N> + ?Sized),
) -> Result<(), ObjectError> {
    Ownership::default().append_owner_reference(objs, owner)
}

/// Options of [`append_owner_reference`] and [`build_owner_reference`].
///
/// ```
/// use kopf::Ownership;
/// use kopf::prelude::*;
///
/// # let owner = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "parent", "uid": "u1"}});
/// let mut pod = json!({});
/// Ownership::default().controller(false).append_owner_reference(&mut pod, &owner)?;
/// assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], false);
/// kopf::remove_owner_reference(&mut pod, &owner)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[must_use]
pub struct Ownership(core::Ownership);

impl Ownership {
    /// Sets whether the owner is the controller. An object has at most one controller.
    pub fn controller(mut self, controller: bool) -> Self {
        self.0.controller = Some(controller);
        self
    }

    /// Sets whether foreground deletion keeps the owner until the objects are deleted.
    pub fn block_owner_deletion(mut self, block: bool) -> Self {
        self.0.block_owner_deletion = Some(block);
        self
    }

    /// Adds an owner reference to objects: see [`append_owner_reference`].
    ///
    /// # Errors
    /// Those of [`append_owner_reference`].
    pub fn append_owner_reference<M, N>(
        self,
        objs: &mut (impl Manifest<M> + ?Sized),
        owner: &(impl Referred<N> + ?Sized),
    ) -> Result<(), ObjectError> {
        let owner = owner.body()?;
        objs.change(&|objs| core::append_owner_reference(objs, &owner, self.0))
    }

    /// Returns an owner reference to this object.
    ///
    /// # Errors
    /// If it is not one object.
    pub fn build_owner_reference<M>(
        self,
        owner: &(impl Referred<M> + ?Sized),
    ) -> Result<Value, ObjectError> {
        Ok(core::build_owner_reference(&owner.body()?, self.0))
    }
}

/// Removes an owner reference from objects.
///
/// ```
/// use kopf::prelude::*;
///
/// # let owner = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "parent", "uid": "u1"}});
/// let mut pod = json!({});
/// kopf::append_owner_reference(&mut pod, &owner)?;
/// kopf::remove_owner_reference(&mut pod, &owner)?;
/// assert!(pod["metadata"]["ownerReferences"].get(0).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a value is not an object.
pub fn remove_owner_reference<M, N>(
    objs: &mut (impl Manifest<M> + ?Sized),
    owner: &(impl Referred<N> + ?Sized),
) -> Result<(), ObjectError> {
    let owner = owner.body()?;
    objs.change(&|objs| core::remove_owner_reference(objs, &owner))
}

/// Returns a reference to this object: `apiVersion`, `kind`, `name`, `uid`, `namespace`.
///
/// ```
/// use kopf::prelude::*;
///
/// let object = json!({"kind": "Pod", "metadata": {"name": "x"}, "spec": {}});
/// assert_eq!(kopf::build_object_reference(&object)?, json!({"kind": "Pod", "name": "x"}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If it is not one object.
pub fn build_object_reference<M>(
    object: &(impl Referred<M> + ?Sized),
) -> Result<Value, ObjectError> {
    Ok(core::build_object_reference(&object.body()?))
}

/// Returns an owner reference to this object. [`Ownership`] has further options.
///
/// ```
/// use kopf::prelude::*;
///
/// # let owner = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "parent", "uid": "u1"}});
/// let reference = kopf::build_owner_reference(&owner)?;
/// assert_eq!(reference["name"], "parent");
/// assert_eq!(reference["blockOwnerDeletion"], true);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If it is not one object.
pub fn build_owner_reference<M>(owner: &(impl Referred<M> + ?Sized)) -> Result<Value, ObjectError> {
    Ownership::default().build_owner_reference(owner)
}
