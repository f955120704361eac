//! The resources that the page shows.

use std::sync::Arc;

use kopf_client::discovery::Scan;
use kopf_core::peering::GROUPS;
use kopf_core::resource::Resource;
use kopf_core::sync::Mutex;

use super::operator::PageOperator;
use crate::failure::Failure;
use crate::kinds::{full, resolve};

/// The resources of the page, which change with the CRDs unless they were named.
#[derive(Debug)]
pub(super) struct Watched {
    selection: Selection,
    resources: Mutex<Vec<Arc<Resource>>>,
}

/// The resources to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// The named ones.
    Named,
    /// All custom resources, also those whose CRDs are applied later.
    Custom,
}

impl Watched {
    /// Resolves the names; without names, selects all custom resources.
    pub(super) fn new(names: &[String], scan: &Scan) -> Result<Self, Failure> {
        let mut resources: Vec<Arc<Resource>> = Vec::new();
        for name in names {
            let resource = resolve(name, scan)?;
            if !resources.iter().any(|known| full(known) == full(&resource)) {
                resources.push(Arc::new(resource));
            }
        }
        let selection = if names.is_empty() {
            resources = custom(scan);
            Selection::Custom
        } else {
            Selection::Named
        };
        Ok(Self {
            selection,
            resources: Mutex::new(resources),
        })
    }

    pub(super) fn selection(&self) -> Selection {
        self.selection
    }

    /// Replaces the resources by those of a new scan: those that the operator handles, or all custom
    /// ones if the operator is not known.
    pub(super) fn update(&self, scan: &Scan, operator: Option<&PageOperator>) {
        *self.resources.lock() = match operator {
            Some(operator) => {
                let resources = scan.resources.iter().filter(|one| is_shown(one));
                let handled = resources.filter(|one| !operator.ids(one).is_empty());
                handled.cloned().map(Arc::new).collect()
            }
            None => custom(scan),
        };
    }

    /// Returns the resources.
    pub(super) fn all(&self) -> Vec<Arc<Resource>> {
        self.resources.lock().clone()
    }

    /// Returns the full names of the resources.
    pub(super) fn names(&self) -> Vec<String> {
        let resources = self.resources.lock();
        resources.iter().map(|resource| full(resource)).collect()
    }

    /// Finds a resource by its full name.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Resource>> {
        let resources = self.resources.lock();
        let found = resources.iter().find(|resource| full(resource) == name);
        found.cloned()
    }
}

/// Returns all custom resources that can be watched.
fn custom(scan: &Scan) -> Vec<Arc<Resource>> {
    let resources = scan.resources.iter().filter(|one| is_custom(one));
    resources.cloned().map(Arc::new).collect()
}

/// Returns `true` unless the group has no dot or ends with `k8s.io`: those are Kubernetes' own.
fn is_custom(resource: &Resource) -> bool {
    let group = resource.group.as_str();
    let is_builtin = !group.contains('.') || group.ends_with(".k8s.io");
    is_shown(resource) && !is_builtin
}

/// Returns `true` if the resource can be watched, except for other versions and peerings.
fn is_shown(resource: &Resource) -> bool {
    let group = resource.group.as_str();
    let is_watched = ["list", "watch"]
        .iter()
        .all(|verb| resource.verbs.contains(*verb));
    let is_peering = GROUPS.contains(&group) && resource.plural.ends_with("peerings");
    resource.preferred && is_watched && !is_peering
}

#[cfg(test)]
mod tests {
    use kopf_core::handler::{FunctionId, HandlerKind, HandlerSpec, Timing};
    use kopf_core::registry::Registry;
    use kopf_core::selector::Selector;
    use kopf_core::settings::Settings;

    use super::*;

    fn resource(group: &str, plural: &str) -> Resource {
        Resource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            verbs: ["list", "watch"].map(str::to_owned).into(),
            preferred: true,
            ..Resource::default()
        }
    }

    fn scan(resources: Vec<Resource>) -> Scan {
        Scan {
            resources,
            failed: Vec::new(),
        }
    }

    #[test]
    fn custom_resources_are_watched_by_default() {
        let scan = scan(vec![
            resource("", "pods"),
            resource("apps", "deployments"),
            resource("coordination.k8s.io", "leases"),
            resource("kopf.dev", "kopfpeerings"),
            resource("kopf.dev", "kopfexamples"),
            resource("example.com", "bakeries"),
        ]);
        let all = Watched::new(&[], &scan).unwrap();
        assert_eq!(all.selection(), Selection::Custom);
        assert_eq!(
            all.names(),
            ["kopfexamples.kopf.dev", "bakeries.example.com"]
        );
        let named = ["pods", "bakeries", "pods"].map(str::to_owned);
        let named = Watched::new(&named, &scan).unwrap();
        assert_eq!(named.selection(), Selection::Named);
        assert_eq!(named.names(), ["pods", "bakeries.example.com"]);
        assert!(Watched::new(&["absent".to_owned()], &scan).is_err());
    }

    #[test]
    fn resources_are_replaced_by_those_of_a_new_scan() {
        let watched = Watched::new(&[], &scan(Vec::new())).unwrap();
        assert!(watched.find("bakeries.example.com").is_none());
        watched.update(&scan(vec![resource("example.com", "bakeries")]), None);
        assert!(watched.find("bakeries.example.com").is_some());
    }

    #[test]
    fn only_handled_resources_of_a_known_operator_are_shown() {
        let handler = |kind, plural: &str| {
            let mut spec = HandlerSpec::new(plural, FunctionId::Number(1), kind);
            spec.selector = Some(Selector::parse(&[plural]).unwrap());
            spec.build(()).unwrap()
        };
        let registry: Registry<()> = [
            handler(HandlerKind::Create, "pods"),
            handler(HandlerKind::Timer(Timing::default()), "bakeries"),
            handler(HandlerKind::Index, "ovens"),
            handler(HandlerKind::Event, "flours"),
        ]
        .into_iter()
        .collect();
        let operator = PageOperator::new(&Settings::default(), registry);
        let resources = ["bakeries", "ovens", "flours", "others"];
        let mut resources: Vec<_> = resources.map(|one| resource("example.com", one)).into();
        resources.push(resource("", "pods"));
        let watched = Watched::new(&[], &scan(Vec::new())).unwrap();
        watched.update(&scan(resources), Some(&operator));
        assert_eq!(watched.names(), ["bakeries.example.com", "pods"]);
    }
}
