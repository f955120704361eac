//! Relations between objects: owner references, names, namespaces, labels.
//!
//! The functions accept JSON, types of `k8s-openapi`, custom resources, and lists of these: see
//! [`Manifest`] and [`Referred`]. An error changes none of the objects. No requests are sent.
//!
//! The source comes first, the changed objects last: `adopt(&owner, &mut child)`. In handlers, the
//! sources are arguments: [`Body`](crate::Body) or [`Object<K>`](crate::Object) as the owner,
//! [`Name`], [`Namespace`] and [`Labels`].

use kopf_core::field::FieldPath;
use kopf_core::hierarchy as core;
use serde_json::{Map, Value};

use crate::extract::{Labels, Name, Namespace};
use crate::fields::IntoFieldPath;
use crate::objects::{Manifest, ObjectError, Referred};

/// Labels for [`label`]: pairs of keys and values, a map, or [`Labels`] of the handled object.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source of labels",
    label = "not labels",
    note = "expected a list or a map of strings to strings, or `&kopf::Labels`"
)]
pub trait IntoLabels {
    /// Returns the labels.
    fn into_labels(self) -> Map<String, Value>;
}

#[diagnostic::do_not_recommend]
impl<I, K, V> IntoLabels for I
where
    I: IntoIterator<Item = (K, V)>,
    K: Into<String>,
    V: Into<String>,
{
    fn into_labels(self) -> Map<String, Value> {
        let labels = self.into_iter();
        let labels = labels.map(|(key, value)| (key.into(), Value::String(value.into())));
        labels.collect()
    }
}

impl IntoLabels for &Labels {
    fn into_labels(self) -> Map<String, Value> {
        let labels = self.iter();
        labels
            .map(|(key, value)| (key.to_owned(), Value::from(value)))
            .collect()
    }
}

/// A name for [`harmonize_naming`]: a string, or the [`Name`] of the handled object.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a name",
    label = "not a name",
    note = "expected a string or `&kopf::Name`"
)]
pub trait IntoName {
    /// Returns the name.
    fn into_name(self) -> String;
}

impl IntoName for &str {
    fn into_name(self) -> String {
        self.to_owned()
    }
}

impl IntoName for &String {
    fn into_name(self) -> String {
        self.clone()
    }
}

impl IntoName for String {
    fn into_name(self) -> String {
        self
    }
}

impl IntoName for &Name {
    fn into_name(self) -> String {
        self.0.clone()
    }
}

/// A namespace for [`adjust_namespace`]: a string, `None` for cluster-scoped objects, or
/// the [`Namespace`] of the handled object.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a namespace",
    label = "not a namespace",
    note = "expected a string, `&kopf::Namespace`, or an `Option` of those"
)]
pub trait IntoNamespace {
    /// Returns the namespace.
    fn into_namespace(self) -> Option<String>;
}

impl IntoNamespace for &str {
    fn into_namespace(self) -> Option<String> {
        Some(self.to_owned())
    }
}

impl IntoNamespace for &String {
    fn into_namespace(self) -> Option<String> {
        Some(self.clone())
    }
}

impl IntoNamespace for String {
    fn into_namespace(self) -> Option<String> {
        Some(self)
    }
}

impl<T: IntoNamespace> IntoNamespace for Option<T> {
    fn into_namespace(self) -> Option<String> {
        self.and_then(IntoNamespace::into_namespace)
    }
}

impl IntoNamespace for &Namespace {
    fn into_namespace(self) -> Option<String> {
        Some(self.0.clone())
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
/// kopf::adopt(&owner, &mut json)?;
/// assert_eq!(json["metadata"]["generateName"], "parent-");
/// assert_eq!(json["metadata"]["labels"]["a"], "b");
///
/// let mut pod = Pod::default();
/// kopf::adopt(&owner, &mut pod)?;
/// assert_eq!(pod.metadata.namespace.as_deref(), Some("ns"));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the owner has no name or does not exist in the cluster yet, or if a value is not an object.
pub fn adopt<M, N>(
    owner: &(impl Referred<N> + ?Sized),
    objs: &mut (impl Manifest<M> + ?Sized),
) -> Result<(), ObjectError> {
    Adoption::default().apply(owner, objs)
}

/// Options of [`adopt`].
///
/// ```
/// use kopf::Adoption;
/// use kopf::prelude::*;
///
/// # let owner = json!({"metadata": {"name": "parent", "uid": "u1", "labels": {"a": "b"}}});
/// let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {}}});
/// Adoption::default().strict().nested("spec.template").apply(&owner, &mut deployment)?;
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
    pub fn apply<M, N>(
        &self,
        owner: &(impl Referred<N> + ?Sized),
        objs: &mut (impl Manifest<M> + ?Sized),
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
/// kopf::label([("app", "other"), ("tier", "front")], &mut pod)?;
/// assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "tier": "front"}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// With the labels, the name and the namespace of the handled object:
///
/// ```
/// use kopf::prelude::*;
/// use kopf::{Labels, Namespace};
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn(labels: Labels, name: Name, namespace: Option<Namespace>) -> kopf::Result<()> {
///     let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
///     kopf::label(&labels, &mut pod)?;
///     kopf::harmonize_naming(&name, &mut pod)?;
///     kopf::adjust_namespace(namespace.as_ref(), &mut pod)?;
///     Ok(())
/// }
/// ```
///
/// # Errors
/// If a value is not an object.
pub fn label<M>(
    labels: impl IntoLabels,
    objs: &mut (impl Manifest<M> + ?Sized),
) -> Result<(), ObjectError> {
    Labelling::default().apply(labels, objs)
}

/// Options of [`label`].
///
/// ```
/// use kopf::Labelling;
/// use kopf::prelude::*;
///
/// let mut pod = json!({"metadata": {"labels": {"app": "web"}}});
/// Labelling::default().forced().apply([("app", "other")], &mut pod)?;
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
    pub fn apply<M>(
        &self,
        labels: impl IntoLabels,
        objs: &mut (impl Manifest<M> + ?Sized),
    ) -> Result<(), ObjectError> {
        let labels = labels.into_labels();
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
/// kopf::harmonize_naming("parent", &mut pod)?;
/// assert_eq!(pod["metadata"]["generateName"], "parent-");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a value is not an object.
pub fn harmonize_naming<M>(
    name: impl IntoName,
    objs: &mut (impl Manifest<M> + ?Sized),
) -> Result<(), ObjectError> {
    Naming::default().apply(name, objs)
}

/// Options of [`harmonize_naming`].
///
/// ```
/// use kopf::Naming;
/// use kopf::prelude::*;
///
/// let mut pod = json!({"metadata": {"name": "own"}});
/// Naming::default().forced().strict().apply("parent", &mut pod)?;
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
    pub fn apply<M>(
        self,
        name: impl IntoName,
        objs: &mut (impl Manifest<M> + ?Sized),
    ) -> Result<(), ObjectError> {
        let name = name.into_name();
        objs.change(&|objs| core::harmonize_naming(objs, &name, self.0))
    }
}

/// Sets the namespace of objects that have none.
///
/// ```
/// use kopf::prelude::*;
///
/// let mut pods = json!([{}, {"metadata": {"namespace": "own"}}]);
/// kopf::adjust_namespace("ns", &mut pods)?;
/// assert_eq!(pods[0]["metadata"]["namespace"], "ns");
/// assert_eq!(pods[1]["metadata"]["namespace"], "own");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a value is not an object.
pub fn adjust_namespace<M>(
    namespace: impl IntoNamespace,
    objs: &mut (impl Manifest<M> + ?Sized),
) -> Result<(), ObjectError> {
    let namespace = namespace.into_namespace();
    objs.change(&|objs| core::adjust_namespace(objs, namespace.as_deref(), false))
}

/// Sets the namespace of objects, even if they have one.
///
/// ```
/// use kopf::prelude::*;
///
/// let mut pod = json!({"metadata": {"namespace": "own"}});
/// kopf::force_namespace("ns", &mut pod)?;
/// assert_eq!(pod["metadata"]["namespace"], "ns");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a value is not an object.
pub fn force_namespace<M>(
    namespace: impl IntoNamespace,
    objs: &mut (impl Manifest<M> + ?Sized),
) -> Result<(), ObjectError> {
    let namespace = namespace.into_namespace();
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
/// kopf::append_owner_reference(&owner, &mut pod)?;
/// let reference = &pod["metadata"]["ownerReferences"][0];
/// assert_eq!((&reference["uid"], &reference["controller"]), (&json!("u1"), &json!(true)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the owner does not exist in the cluster yet, or if a value is not an object.
pub fn append_owner_reference<M, N>(
    owner: &(impl Referred<N> + ?Sized),
    objs: &mut (impl Manifest<M> + ?Sized),
) -> Result<(), ObjectError> {
    Ownership::default().apply(owner, objs)
}

/// Options of [`append_owner_reference`] and [`build_owner_reference`].
///
/// ```
/// use kopf::Ownership;
/// use kopf::prelude::*;
///
/// # let owner = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "parent", "uid": "u1"}});
/// let mut pod = json!({});
/// Ownership::default().controller(false).apply(&owner, &mut pod)?;
/// assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], false);
/// kopf::remove_owner_reference(&owner, &mut pod)?;
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
    pub fn apply<M, N>(
        self,
        owner: &(impl Referred<N> + ?Sized),
        objs: &mut (impl Manifest<M> + ?Sized),
    ) -> Result<(), ObjectError> {
        let owner = owner.body()?;
        objs.change(&|objs| core::append_owner_reference(objs, &owner, self.0))
    }

    /// Returns an owner reference to this object.
    ///
    /// # Errors
    /// If it is not one object.
    pub fn reference<M>(self, owner: &(impl Referred<M> + ?Sized)) -> Result<Value, ObjectError> {
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
/// kopf::append_owner_reference(&owner, &mut pod)?;
/// kopf::remove_owner_reference(&owner, &mut pod)?;
/// assert!(pod["metadata"]["ownerReferences"].get(0).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a value is not an object.
pub fn remove_owner_reference<M, N>(
    owner: &(impl Referred<N> + ?Sized),
    objs: &mut (impl Manifest<M> + ?Sized),
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
    Ownership::default().reference(owner)
}
