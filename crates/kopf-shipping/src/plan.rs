//! The options of an operator in a cluster, and the permissions it needs.

use kopf_core::namespace::{self, NamespacePattern, Scope};
use kopf_core::registry::Registry;
use kopf_core::rights::{
    Coverage, ExtraPermission, Leases, Options, Requirements, Usage, builtin_resources,
    resources_of_definition,
};
use kopf_core::settings::{Replication, Settings};
use serde_json::Value;

use crate::Identity;

/// The option of `run` with the name of the Lease, with its separator.
pub(crate) const LEASE_OPTION: &str = "--leader-elect-name=";

/// The options of `run` in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Namespaces or patterns; empty for the whole cluster.
    pub namespaces: Vec<String>,
    /// Disables peering.
    pub standalone: bool,
    /// The peering object.
    pub peering: Option<String>,
    /// Installs CRDs at the start.
    pub installs_definitions: bool,
    /// The name of the Lease for leader election.
    pub lease: Option<String>,
}

/// The description of an operator for permissions and manifests.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name and the namespace of the operator.
    pub identity: Identity,
    /// The options of `run`.
    pub launch: Launch,
    /// Permissions for requests of handlers.
    pub extras: Vec<ExtraPermission>,
    /// The name of managed webhook configurations; by default, that of the settings.
    pub managed_webhooks: Option<String>,
    /// CRDs of the operator.
    pub definitions: Vec<Value>,
    /// Other CRDs, which define the groups and scopes of handled resources.
    pub other_definitions: Vec<Value>,
}

impl Launch {
    /// Returns the arguments of `run`.
    ///
    /// ```
    /// use kopf_shipping::Launch;
    ///
    /// assert_eq!(Launch::default().arguments(), ["run", "--all-namespaces"]);
    /// let namespaces = vec!["a".to_owned()];
    /// let launch = Launch { namespaces, standalone: true, ..Launch::default() };
    /// assert_eq!(launch.arguments(), ["run", "--namespace=a", "--standalone"]);
    /// ```
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["run".to_owned()];
        if self.namespaces.is_empty() {
            arguments.push("--all-namespaces".to_owned());
        }
        let namespaces = self.namespaces.iter();
        arguments.extend(namespaces.map(|namespace| format!("--namespace={namespace}")));
        let peering = self.peering.iter();
        arguments.extend(peering.map(|name| format!("--peering={name}")));
        let lease = self.lease.iter();
        arguments.extend(lease.map(|name| format!("{LEASE_OPTION}{name}")));
        for (is_set, flag) in [
            (self.standalone, "--standalone"),
            (self.installs_definitions, "--install-crds"),
        ] {
            if is_set {
                arguments.push(flag.to_owned());
            }
        }
        arguments
    }

    /// Returns the served namespaces.
    pub fn scope(&self) -> Result<Scope, namespace::Error> {
        if self.namespaces.is_empty() {
            return Ok(Scope::Cluster);
        }
        let patterns = self.namespaces.iter();
        let patterns = patterns.map(|text| NamespacePattern::parse(text));
        Ok(Scope::Namespaces(patterns.collect::<Result<_, _>>()?))
    }
}

impl Plan {
    /// Returns the permissions that the operator needs.
    pub fn requirements<F>(
        &self,
        registry: &Registry<F>,
        settings: &Settings,
    ) -> Result<Requirements, namespace::Error> {
        let mut settings = settings.clone();
        settings.peering.standalone |= self.launch.standalone;
        if let Some(name) = &self.launch.peering {
            settings.peering.name.clone_from(name);
        }
        if self.managed_webhooks.is_some() {
            settings
                .admission
                .managed
                .clone_from(&self.managed_webhooks);
        }
        let definitions = self.definitions.iter().chain(&self.other_definitions);
        let mut resources = builtin_resources();
        resources.extend(definitions.flat_map(resources_of_definition));
        if let Some(name) = &self.launch.lease {
            settings.leading.enabled = true;
            settings.leading.name.clone_from(name);
        }
        let leases = match (settings.leading.replication(), &settings.leading.namespace) {
            (Replication::Single, _) => Leases::Unused,
            (_, Some(namespace)) => Leases::In(namespace.clone()),
            (_, None) => Leases::In(self.identity.namespace.clone()),
        };
        let usage = Usage {
            registry,
            settings: &settings,
            scope: &self.launch.scope()?,
            resources: resources.iter().collect(),
            coverage: Coverage::Partial,
            options: &Options {
                leases,
                installs_definitions: self.launch.installs_definitions
                    || settings.scanning.install_crds,
            },
        };
        let mut requirements = Requirements::of(&usage);
        for extra in &self.extras {
            requirements.add_extra(extra);
        }
        Ok(requirements)
    }

    /// Returns the note on several pods without an election.
    #[must_use]
    pub fn note_on_replicas(&self, replicas: u32) -> Option<&'static str> {
        let note = "several pods handle the same objects at the same time unless they elect a leader \
                    (--leader-elect) or pause each other (--peering)";
        (replicas > 1 && self.launch.lease.is_none()).then_some(note)
    }
}

/// Returns the notes on the permissions of an operator, for the user of a command.
pub fn notes<F>(registry: &Registry<F>, requirements: &Requirements) -> Vec<String> {
    let nothing = "there are no handlers, so there are no permissions for handled resources";
    let nothing = registry.handlers().is_empty().then(|| nothing.to_owned());
    let remarks = requirements.remarks.iter().map(ToString::to_string);
    nothing.into_iter().chain(remarks).collect()
}

#[cfg(test)]
mod tests {
    use kopf_core::handler::{FunctionId, HandlerKind, HandlerSpec};
    use kopf_core::rights::Remark;
    use kopf_core::selector::Selector;
    use serde_json::json;

    use super::*;

    fn registry() -> Registry<()> {
        let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), HandlerKind::Event);
        spec.selector = Some(Selector::parse(&["th"]).unwrap());
        [spec.build(()).unwrap()].into_iter().collect()
    }

    fn shown(plan: &Plan) -> Vec<String> {
        let requirements = plan.requirements(&registry(), &Settings::default());
        let permissions = requirements.unwrap().permissions;
        permissions.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn crds_and_options_determine_the_permissions() {
        let definition = json!({"kind": "CustomResourceDefinition", "spec": {
            "group": "g", "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
            "versions": [{"name": "v1", "served": true}, {"name": "v2", "served": true}]}});
        let plan = Plan {
            identity: Identity::new("op", "ops").unwrap(),
            launch: Launch {
                namespaces: vec!["a".to_owned()],
                lease: Some("op".to_owned()),
                peering: Some("blue".to_owned()),
                ..Launch::default()
            },
            extras: vec!["create:pods".parse().unwrap()],
            managed_webhooks: None,
            definitions: Vec::new(),
            other_definitions: vec![definition],
        };
        let permissions = shown(&plan);
        for expected in [
            "list things.g cluster-wide",
            "create pods in the namespace \"a\"",
            "patch kopfpeerings.kopf.dev \"blue\" in the namespace \"a\"",
            "update leases.coordination.k8s.io in the namespace \"ops\"",
        ] {
            assert!(
                permissions.contains(&expected.to_owned()),
                "{permissions:?}"
            );
        }
    }

    #[test]
    fn operators_without_handlers_are_noted() {
        let requirements = Requirements {
            remarks: [Remark::UnmanagedWebhooks].into(),
            ..Requirements::default()
        };
        let remarks = [Remark::UnmanagedWebhooks.to_string()];
        assert_eq!(notes(&registry(), &requirements), remarks);
        let found = notes(&Registry::<()>::default(), &requirements);
        assert!(found[0].starts_with("there are no handlers"), "{found:?}");
        assert_eq!(found[1..], remarks);
    }

    #[test]
    fn leader_election_is_an_argument() {
        let launch = Launch {
            lease: Some("op".to_owned()),
            ..Launch::default()
        };
        let expected = ["run", "--all-namespaces", "--leader-elect-name=op"];
        assert_eq!(launch.arguments(), expected);
    }

    #[test]
    fn invalid_namespaces_are_rejected() {
        let launch = Launch {
            namespaces: vec![String::new()],
            ..Launch::default()
        };
        assert!(launch.scope().is_err());
    }
}
