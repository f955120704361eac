//! Selectors of resources: by names, groups, versions, or a function.
//!
//! They are matched against discovered resources, and do not imply that matching ones exist.

mod spec;

use std::fmt;
use std::sync::Arc;

pub use spec::{Error, SelectorSpec};

use crate::panicking::{Panicked, caught};
use crate::resource::Resource;

/// A user's function that selects resources.
pub type Predicate = Arc<dyn Fn(&Resource) -> bool + Send + Sync>;

/// A selector of resources.
///
/// ```
/// use kopf_core::selector::Selector;
///
/// let selector = Selector::parse(&["kopf.dev", "v1", "kopfexamples"]).unwrap();
/// assert_eq!(selector.group(), Some("kopf.dev"));
/// assert!(selector.is_specific());
/// ```
#[derive(Clone)]
pub struct Selector {
    group: Option<String>,
    version: Option<String>,
    name: Name,
}

/// The criterion that names the resources.
#[derive(Clone)]
enum Name {
    /// Kind, plural, singular, or short name.
    Any(String),
    Kind(String),
    Plural(String),
    Singular(String),
    Shortcut(String),
    Category(String),
    Everything,
    Predicate(Predicate),
}

impl Selector {
    /// Parses one to three positional arguments: `name`, `name.version.group`, `name.group`;
    /// `group/version` or `group` and a name; group, version, and a name.
    pub fn parse(args: &[&str]) -> Result<Self, Error> {
        SelectorSpec {
            positional: args.iter().map(|&arg| arg.to_owned()).collect(),
            ..SelectorSpec::default()
        }
        .build()
    }

    /// Returns a selector of all resources in their preferred versions, except for events.
    pub fn everything() -> Self {
        Self {
            group: None,
            version: None,
            name: Name::Everything,
        }
    }

    /// Returns a selector of all resources, in all their versions, that the function accepts,
    /// except for events.
    pub fn predicate(predicate: impl Fn(&Resource) -> bool + Send + Sync + 'static) -> Self {
        Self {
            group: None,
            version: None,
            name: Name::Predicate(Arc::new(predicate)),
        }
    }

    /// Returns the API group; `None` for any.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Returns the name that can be a plural name. `None` for other criteria.
    pub fn plural(&self) -> Option<&str> {
        match &self.name {
            Name::Any(name) | Name::Plural(name) => Some(name),
            _ => None,
        }
    }

    /// Returns `true` if all resources are selected, at least those of a group or version.
    pub fn is_everything(&self) -> bool {
        matches!(self.name, Name::Everything)
    }

    /// Returns `true` if a single resource is expected, and several matching ones are a problem.
    pub fn is_specific(&self) -> bool {
        !matches!(
            self.name,
            Name::Category(_) | Name::Everything | Name::Predicate(_)
        )
    }

    /// Returns `true` if this resource is selected. A function that panics selects nothing.
    pub fn check(&self, resource: &Resource) -> bool {
        self.try_check(resource).unwrap_or(false)
    }

    /// Returns `true` if this resource is selected.
    ///
    /// # Errors
    /// The function panics.
    pub fn try_check(&self, resource: &Resource) -> Result<bool, Panicked> {
        let group_fits = self
            .group
            .as_ref()
            .is_none_or(|group| *group == resource.group);
        let version_fits = match &self.version {
            Some(version) => *version == resource.version,
            // A function gets all versions and decides itself.
            None => resource.preferred || matches!(self.name, Name::Predicate(_)),
        };
        Ok(group_fits && version_fits && self.name.fits(resource)?)
    }

    /// Returns the selected resources, in their order.
    ///
    /// If a single resource is expected and the core group has it, resources of the same name in
    /// other groups are omitted: `pods` are never `pods.metrics.k8s.io`. Kubernetes and kubectl do
    /// the same.
    pub fn select<'a>(&self, resources: impl Iterator<Item = &'a Resource>) -> Vec<&'a Resource> {
        let mut selected: Vec<_> = resources.filter(|resource| self.check(resource)).collect();
        if self.is_specific() && selected.iter().any(|resource| resource.group.is_empty()) {
            selected.retain(|resource| resource.group.is_empty());
        }
        selected
    }
}

impl Name {
    fn fits(&self, resource: &Resource) -> Result<bool, Panicked> {
        Ok(match self {
            Self::Any(name) => {
                *name == resource.kind
                    || *name == resource.plural
                    || *name == resource.singular
                    || resource.shortcuts.contains(name)
            }
            Self::Kind(kind) => *kind == resource.kind,
            Self::Plural(plural) => *plural == resource.plural,
            Self::Singular(singular) => *singular == resource.singular,
            Self::Shortcut(shortcut) => resource.shortcuts.contains(shortcut),
            Self::Category(category) => resource.categories.contains(category),
            Self::Everything => !is_event(resource),
            Self::Predicate(predicate) => !is_event(resource) && caught(|| predicate(resource))?,
        })
    }

    /// Returns the keyword of the criterion, and its value.
    fn keyword(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Any(name) => ("name", Some(name)),
            Self::Kind(kind) => ("kind", Some(kind)),
            Self::Plural(plural) => ("plural", Some(plural)),
            Self::Singular(singular) => ("singular", Some(singular)),
            Self::Shortcut(shortcut) => ("shortcut", Some(shortcut)),
            Self::Category(category) => ("category", Some(category)),
            Self::Everything => ("everything", None),
            Self::Predicate(_) => ("predicate", None),
        }
    }
}

/// Returns `true` for events, which handling itself produces: handling them would never end.
fn is_event(resource: &Resource) -> bool {
    let named = resource.plural == "events" || resource.kind == "events";
    let core = resource.group.is_empty() && resource.version == "v1";
    let newer = resource.group == "events.k8s.io" && resource.preferred;
    named && (core || newer)
}

impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        let names_equal = match (&self.name, &other.name) {
            (Name::Predicate(one), Name::Predicate(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.keyword() == other.keyword(),
        };
        names_equal && self.group == other.group && self.version == other.version
    }
}

impl Eq for Selector {}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Selector({self})")
    }
}

impl fmt::Display for Selector {
    /// Formats as `group="kopf.dev", version="v1", name="kopfexamples"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in [("group", &self.group), ("version", &self.version)] {
            if let Some(value) = value {
                write!(f, "{key}={value:?}, ")?;
            }
        }
        match self.name.keyword() {
            (key, Some(value)) => write!(f, "{key}={value:?}"),
            (key, None) => f.write_str(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, version: &str, plural: &str) -> Resource {
        Resource {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
            kind: "Thing".into(),
            singular: "thing".into(),
            shortcuts: ["th".to_owned()].into(),
            categories: ["all".to_owned()].into(),
            preferred: true,
            ..Resource::default()
        }
    }

    fn things() -> Resource {
        resource("g.example", "v1", "things")
    }

    #[test]
    fn panicking_function_selects_nothing() {
        let selector = Selector::predicate(|resource| {
            assert!(resource.group != "bad.example", "cannot decide");
            true
        });
        assert!(selector.check(&things()));
        let bad = resource("bad.example", "v1", "things");
        assert!(!selector.check(&bad));
        let panicked = selector.try_check(&bad).unwrap_err();
        assert_eq!(panicked.message, "cannot decide");
        assert_eq!(selector.select([things(), bad].iter()), [&things()]);
    }

    #[test]
    fn name_matches_kind_plural_singular_or_short_name() {
        for name in ["Thing", "things", "thing", "th"] {
            assert!(Selector::parse(&[name]).unwrap().check(&things()), "{name}");
        }
        for name in ["THING", "Things", "all", "t"] {
            assert!(
                !Selector::parse(&[name]).unwrap().check(&things()),
                "{name}"
            );
        }
    }

    #[test]
    fn without_a_version_only_the_preferred_one_matches_except_for_functions() {
        let mut old = things();
        old.preferred = false;
        old.version = "v1beta1".into();
        assert!(!Selector::parse(&["things"]).unwrap().check(&old));
        assert!(!Selector::everything().check(&old));
        assert!(Selector::parse(&["things.v1beta1"]).unwrap().check(&old));
        assert!(!Selector::parse(&["things.v1"]).unwrap().check(&old));
        assert!(Selector::predicate(|_| true).check(&old));
        assert!(!Selector::predicate(|r| r.version == "v1").check(&old));
    }

    #[test]
    fn given_group_must_match() {
        assert!(
            Selector::parse(&["things.g.example"])
                .unwrap()
                .check(&things())
        );
        assert!(
            !Selector::parse(&["things.h.example"])
                .unwrap()
                .check(&things())
        );
        assert!(!Selector::parse(&["v1", "things"]).unwrap().check(&things()));
        assert!(
            Selector::parse(&["v1", "pods"])
                .unwrap()
                .check(&resource("", "v1", "pods"))
        );
    }

    #[test]
    fn events_are_selected_only_by_name() {
        let core = resource("", "v1", "events");
        let newer = resource("events.k8s.io", "v1", "events");
        for events in [&core, &newer] {
            assert!(!Selector::everything().check(events));
            assert!(!Selector::predicate(|_| true).check(events));
            assert!(Selector::parse(&["events"]).unwrap().check(events));
        }
        assert!(Selector::everything().check(&resource("g.example", "v1", "events")));
    }

    #[test]
    fn core_group_takes_precedence_for_specific_selectors() {
        let core = resource("", "v1", "pods");
        let metrics = resource("metrics.k8s.io", "v1beta1", "pods");
        let all = [metrics.clone(), core.clone()];
        assert_eq!(
            Selector::parse(&["pods"]).unwrap().select(all.iter()),
            [&core]
        );
        let category = SelectorSpec {
            category: Some("all".into()),
            ..SelectorSpec::default()
        };
        assert_eq!(
            category.build().unwrap().select(all.iter()),
            [&metrics, &core]
        );
        assert_eq!(Selector::everything().select(all.iter()), [&metrics, &core]);
        assert_eq!(
            Selector::parse(&["pods"])
                .unwrap()
                .select([&metrics].into_iter()),
            [&metrics]
        );
    }

    #[test]
    fn selectors_of_sets_are_not_specific() {
        assert!(Selector::parse(&["things"]).unwrap().is_specific());
        assert!(!Selector::everything().is_specific());
        assert!(!Selector::predicate(|_| true).is_specific());
    }

    #[test]
    fn text_names_the_criteria() {
        let selector = Selector::parse(&["things.v1.g.example"]).unwrap();
        assert_eq!(
            selector.to_string(),
            r#"group="g.example", version="v1", name="things""#
        );
        assert_eq!(Selector::everything().to_string(), "everything");
    }

    #[test]
    fn equality_is_by_criteria_and_of_functions_by_identity() {
        let parse = |args: &[&str]| Selector::parse(args).unwrap();
        assert_eq!(parse(&["things.v1.g"]), parse(&["g", "v1", "things"]));
        assert_ne!(parse(&["things"]), parse(&["others"]));
        let predicate = Selector::predicate(|_| true);
        assert_eq!(predicate, predicate.clone());
        assert_ne!(predicate, Selector::predicate(|_| true));
    }
}
