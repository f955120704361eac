//! Selectors of resources.

use kopf_core::resource::Resource;
use kopf_core::selector::{self, Selector, SelectorSpec};

use crate::definitions::Definition;

/// All resources, except for events.
///
/// ```
/// use kopf::Resource;
/// use kopf::prelude::*;
///
/// #[kopf::on::event(EVERYTHING)]
/// fn seen(Name(name): Name, resource: Resource, logger: Logger) {
///     logger.info(format_args!("{resource} {name}"));
/// }
/// ```
pub const EVERYTHING: Everything = Everything;

/// The type of [`EVERYTHING`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Everything;

/// A selector of resources by any of their names.
///
/// Needed only for selectors that a string, a type or a function cannot express:
///
/// ```
/// use kopf::Select;
/// use kopf::prelude::*;
///
/// fn seen() {}
///
/// let handlers = [
///     on::event(Select::default().category("all"), seen),
///     on::event(Select::default().kind("Pod").group(""), seen),
///     on::event(Select::of::<kopf::k8s_openapi::api::core::v1::Pod>(), seen),
/// ];
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Select {
    spec: SelectorSpec,
    /// The CRD of the type, if the selector was made from one.
    definition: Option<Definition>,
}

impl Select {
    /// Selects the resource of a type with kube's `CustomResource` derive, or of `k8s-openapi`.
    ///
    /// ```
    /// use kopf::Select;
    /// use kopf::k8s_openapi::api::core::v1::Pod;
    ///
    /// let select = Select::of::<Pod>();
    /// ```
    pub fn of<K: ResourceType>() -> Self {
        K::select()
    }

    /// Selects by one to three names: the name; group or group/version, and name; group, version,
    /// name.
    ///
    /// ```
    /// use kopf::Select;
    ///
    /// let select = Select::named(["kopf.dev/v1", "kopfexamples"]);
    /// ```
    pub fn named<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self::from(SelectorSpec {
            positional: names.into_iter().map(Into::into).collect(),
            ..SelectorSpec::default()
        })
    }

    /// Sets the API group. An empty string is the core group.
    ///
    /// ```
    /// use kopf::Select;
    ///
    /// let select = Select::named(["kopfexamples"]).group("kopf.dev");
    /// ```
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.spec.group = Some(group.into());
        self
    }

    /// Sets the API version. Default: the version that the API prefers.
    ///
    /// ```
    /// use kopf::Select;
    ///
    /// let select = Select::named(["kopfexamples"]).version("v1");
    /// ```
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.spec.version = Some(version.into());
        self
    }

    /// Sets the kind: `KopfExample`.
    ///
    /// ```
    /// use kopf::Select;
    ///
    /// let select = Select::default().kind("KopfExample");
    /// ```
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.spec.kind = Some(kind.into());
        self
    }

    /// Sets the plural name, as in URLs: `kopfexamples`.
    ///
    /// ```
    /// use kopf::Select;
    ///
    /// let select = Select::default().plural("kopfexamples");
    /// ```
    pub fn plural(mut self, plural: impl Into<String>) -> Self {
        self.spec.plural = Some(plural.into());
        self
    }

    /// Sets the singular name: `kopfexample`.
    ///
    /// ```
    /// use kopf::Select;
    ///
    /// let select = Select::default().singular("kopfexample");
    /// ```
    pub fn singular(mut self, singular: impl Into<String>) -> Self {
        self.spec.singular = Some(singular.into());
        self
    }

    /// Sets a short name: `kex`.
    ///
    /// ```
    /// use kopf::Select;
    ///
    /// let select = Select::default().shortcut("kex");
    /// ```
    pub fn shortcut(mut self, shortcut: impl Into<String>) -> Self {
        self.spec.shortcut = Some(shortcut.into());
        self
    }

    /// Sets a category: `all`. Selects all resources in it.
    ///
    /// ```
    /// use kopf::Select;
    ///
    /// let select = Select::default().group("kopf.dev").category("all");
    /// ```
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.spec.category = Some(category.into());
        self
    }

    /// Sets the CRD of the type.
    pub(crate) fn defined_by(mut self, definition: Option<Definition>) -> Self {
        self.definition = definition;
        self
    }

    /// Returns the CRD of the type, if the selector was made from one.
    pub(crate) fn definition(&self) -> Option<Definition> {
        self.definition
    }

    pub(crate) fn build(self) -> Result<Selector, selector::Error> {
        self.spec.build()
    }
}

impl From<SelectorSpec> for Select {
    fn from(spec: SelectorSpec) -> Self {
        Self {
            spec,
            definition: None,
        }
    }
}

/// A type of objects with a static resource.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type of a resource",
    label = "not a resource",
    note = "types of resources are those with `#[derive(CustomResource)]` and those of `k8s-openapi`, such as `Pod`"
)]
pub trait ResourceType {
    /// Returns the selector of the resource.
    fn select() -> Select;
}

#[diagnostic::do_not_recommend]
impl<K: kube::Resource<DynamicType = ()>> ResourceType for K {
    fn select() -> Select {
        let (group, version, plural) = (K::group(&()), K::version(&()), K::plural(&()));
        if group.is_empty() {
            Select::named([version, plural])
        } else {
            Select::named([group, version, plural])
        }
    }
}

/// A selector of resources: one to three strings, [`EVERYTHING`], a predicate `Fn(&Resource) ->
/// bool`, or a [`Select`].
///
/// | example | meaning |
/// |---|---|
/// | `"kopfexamples"` | by plural, singular, kind or short name, in any group |
/// | `"kopfexamples.kopf.dev"`, `"kopfexamples.v1.kopf.dev"` | with group, and version |
/// | `("kopf.dev", "kopfexamples")`, `("kopf.dev/v1", "kopfexamples")` | the same as two strings |
/// | `("kopf.dev", "v1", "kopfexamples")` | the same as three strings |
/// | `EVERYTHING` | all resources except for events |
/// | <code>&#124;r: &Resource&#124; r.group == "kopf.dev"</code> | those that the function accepts |
///
/// The parameter distinguishes functions from other values. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a selector of resources",
    label = "not a selector of resources",
    note = "expected \"things\", (\"group\", \"things\"), (\"group\", \"v1\", \"things\"), EVERYTHING, \
            a function `Fn(&Resource) -> bool`, or `kopf::Select`, as in `Select::of::<Thing>()`"
)]
pub trait IntoSelect<M> {
    /// Converts the value.
    fn into_select(self) -> Select;
}

/// For [`IntoSelect`]: a value.
#[derive(Debug)]
pub struct Plain;

/// For [`IntoSelect`]: a function.
#[derive(Debug)]
pub struct Predicate;

impl IntoSelect<Plain> for Select {
    fn into_select(self) -> Select {
        self
    }
}

impl IntoSelect<Plain> for Everything {
    fn into_select(self) -> Select {
        Select::from(SelectorSpec {
            everything: true,
            ..SelectorSpec::default()
        })
    }
}

impl IntoSelect<Plain> for &str {
    fn into_select(self) -> Select {
        Select::named([self])
    }
}

impl IntoSelect<Plain> for String {
    fn into_select(self) -> Select {
        Select::named([self])
    }
}

impl<S: Into<String>, const N: usize> IntoSelect<Plain> for [S; N] {
    fn into_select(self) -> Select {
        Select::named(self)
    }
}

impl<A: Into<String>, B: Into<String>> IntoSelect<Plain> for (A, B) {
    fn into_select(self) -> Select {
        Select::named([self.0.into(), self.1.into()])
    }
}

impl<A: Into<String>, B: Into<String>, C: Into<String>> IntoSelect<Plain> for (A, B, C) {
    fn into_select(self) -> Select {
        Select::named([self.0.into(), self.1.into(), self.2.into()])
    }
}

#[diagnostic::do_not_recommend]
impl<F> IntoSelect<Predicate> for F
where
    F: Fn(&Resource) -> bool + Send + Sync + 'static,
{
    fn into_select(self) -> Select {
        Select::from(SelectorSpec {
            predicate: Some(std::sync::Arc::new(self)),
            ..SelectorSpec::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector<M>(select: impl IntoSelect<M>) -> String {
        select.into_select().build().unwrap().to_string()
    }

    #[test]
    fn strings_are_names() {
        assert_eq!(selector("pods"), r#"name="pods""#);
        assert_eq!(
            selector(("kopf.dev", "v1", "kopfexamples")),
            selector(["kopf.dev", "v1", "kopfexamples"])
        );
        assert_eq!(
            selector(("kopf.dev/v1", "kopfexamples")),
            r#"group="kopf.dev", version="v1", name="kopfexamples""#
        );
    }

    #[test]
    fn types_are_names() {
        use k8s_openapi::api::apps::v1::Deployment;
        use k8s_openapi::api::core::v1::Pod;
        assert_eq!(selector(Select::of::<Pod>()), selector(("v1", "pods")));
        assert_eq!(
            selector(Select::of::<Deployment>()),
            selector(("apps", "v1", "deployments"))
        );
    }

    #[test]
    fn functions_and_markers_are_selectors() {
        assert_eq!(selector(EVERYTHING), "everything");
        assert_eq!(
            selector(|resource: &Resource| resource.namespaced),
            "predicate"
        );
        assert_eq!(
            selector(Select::default().kind("Pod").group("")),
            r#"group="", kind="Pod""#
        );
    }

    #[test]
    fn empty_selectors_are_rejected() {
        assert!(Select::default().build().is_err());
        assert!("".into_select().build().is_err());
        assert!(["a", "b", "c", "d"].into_select().build().is_err());
    }
}
