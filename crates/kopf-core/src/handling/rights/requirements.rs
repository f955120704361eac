//! The permissions that handlers and settings need.

use std::collections::BTreeSet;

use super::{ExtraPermission, Options, Permission, PermissionScope, Remark};
use crate::handler::HandlerKind;
use crate::namespace::{NamespacePattern, Scope};
use crate::peering;
use crate::registry::Registry;
use crate::resource::Resource;
use crate::selector::Selector;
use crate::settings::Settings;

const WATCHING: [&str; 2] = ["list", "watch"];

/// The namespace of events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// The Leases that an operator holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Leases {
    /// None.
    #[default]
    Unused,
    /// Leases in this namespace.
    In(String),
}

/// The part of the resources of the cluster that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Resources that are not known can exist: their names are taken from the selectors.
    Partial,
    /// All resources of the cluster are known: others are not served.
    Complete,
}

/// The use of the API by an operator.
#[derive(Debug)]
pub struct Usage<'a, F> {
    /// The handlers.
    pub registry: &'a Registry<F>,
    /// The settings.
    pub settings: &'a Settings,
    /// The served namespaces.
    pub scope: &'a Scope,
    /// The known resources.
    pub resources: Vec<&'a Resource>,
    /// The part of the resources of the cluster that is known.
    pub coverage: Coverage,
    /// Other options.
    pub options: &'a Options,
}

/// The permissions of an operator, with remarks on what could not be derived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// The permissions, in a stable order.
    pub permissions: BTreeSet<Permission>,
    /// Remarks, for people.
    pub remarks: BTreeSet<Remark>,
    /// The scopes of namespaced objects.
    pub scopes: Vec<PermissionScope>,
    /// The permissions for the finalizers of handled objects. They are granted if the operator can
    /// create other objects: an owner reference with `blockOwnerDeletion` needs them where the
    /// admission plugin `OwnerReferencesPermissionEnforcement` is on.
    pub owners: BTreeSet<Permission>,
}

/// A resource of a handler, as far as it is known.
struct Served {
    group: String,
    plural: String,
    is_namespaced: bool,
    has_status: bool,
    is_patchable: bool,
}

impl Served {
    fn known(resource: &Resource) -> Self {
        Self {
            group: resource.group.clone(),
            plural: resource.plural.clone(),
            is_namespaced: resource.namespaced,
            has_status: resource.has_status(),
            is_patchable: resource.verbs.contains("patch"),
        }
    }

    /// Returns a resource by its name only. A permission for an absent subresource grants nothing.
    fn named(group: &str, plural: &str) -> Self {
        Self {
            group: group.to_owned(),
            plural: plural.to_owned(),
            is_namespaced: true,
            has_status: true,
            is_patchable: true,
        }
    }
}

impl Requirements {
    /// Derives the permissions of an operator.
    ///
    /// ```
    /// use kopf_core::handler::{FunctionId, HandlerKind, HandlerSpec};
    /// use kopf_core::namespace::Scope;
    /// use kopf_core::registry::Registry;
    /// use kopf_core::rights::{Usage, Coverage, Options, Requirements};
    /// use kopf_core::selector::Selector;
    /// use kopf_core::settings::Settings;
    ///
    /// let mut spec = HandlerSpec::new("seen", FunctionId::Number(1), HandlerKind::Event);
    /// spec.selector = Some(Selector::parse(&["kopf.dev", "v1", "kopfexamples"])?);
    /// let registry: Registry<()> = [spec.build(())?].into_iter().collect();
    /// let mut settings = Settings::default();
    /// settings.peering.standalone = true;
    /// let requirements = Requirements::of(&Usage {
    ///     registry: &registry,
    ///     settings: &settings,
    ///     scope: &Scope::Cluster,
    ///     resources: Vec::new(),
    ///     coverage: Coverage::Partial,
    ///     options: &Options::default(),
    /// });
    /// let shown: Vec<_> = requirements.permissions.iter().map(ToString::to_string).collect();
    /// assert!(shown.contains(&"list kopfexamples.kopf.dev cluster-wide".to_owned()));
    /// assert!(!shown.contains(&"patch kopfexamples.kopf.dev cluster-wide".to_owned()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of<F>(usage: &Usage<'_, F>) -> Self {
        let mut requirements = Self::default();
        requirements.add_scopes(usage.scope);
        requirements.add_objects(usage);
        requirements.add_scanning(usage);
        requirements.add_peering(usage);
        requirements.add_admission(usage);
        requirements.add_options(usage.options);
        requirements.add_certificate(usage);
        requirements
    }

    /// Adds permissions for requests of the user's functions, in all served scopes.
    pub fn add_extra(&mut self, extra: &ExtraPermission) {
        if extra.creates() {
            self.permissions.extend(self.owners.iter().cloned());
        }
        self.permissions.extend(extra.permissions(&self.scopes));
    }

    fn add_scopes(&mut self, scope: &Scope) {
        self.scopes = match scope {
            Scope::Cluster => vec![PermissionScope::Cluster],
            Scope::Namespaces(patterns) => {
                let patterned = patterns.iter().find(|pattern| pattern.literal().is_none());
                if let Some(pattern) = patterned {
                    self.remarks.insert(Remark::Patterns(pattern.to_string()));
                    vec![PermissionScope::Cluster]
                } else {
                    let names = patterns.iter().filter_map(NamespacePattern::literal);
                    let names: BTreeSet<&str> = names.collect();
                    let names = names.into_iter().map(str::to_owned);
                    names.map(PermissionScope::Namespace).collect()
                }
            }
        };
    }

    fn add_objects<F>(&mut self, usage: &Usage<'_, F>) {
        let is_posting = usage.settings.posting.enabled;
        let handlers = usage.registry.handlers();
        // Without a selector, owners of children are the objects of all handlers.
        let writes_to_all = handlers
            .iter()
            .any(|handler| handler.kind == HandlerKind::Child && handler.selector.is_none());
        for handler in handlers {
            if !handler.kind.is_watching() {
                continue;
            }
            // Handlers that wait for their children also apply them. The check at startup cannot know
            // it, so it does not report the lack of these permissions.
            let applies = handler.kind != HandlerKind::Child
                && !handler.owns.is_empty()
                && usage.coverage == Coverage::Partial;
            for children in &handler.owns {
                for served in self.served(children, usage) {
                    self.add_object(&served, false);
                    if applies {
                        self.add_applying(&served);
                    }
                }
            }
            let Some(selector) = &handler.selector else {
                continue;
            };
            // Event handlers and indices keep no state on objects. Handlers of children can patch
            // the owner.
            let is_writing = writes_to_all
                || handler.kind.is_change()
                || handler.kind.is_background()
                || handler.kind == HandlerKind::Child;
            for served in self.served(selector, usage) {
                self.add_object(&served, is_writing);
                if is_writing {
                    self.add_owner(&served, applies);
                }
                if is_posting {
                    self.add_events(&served);
                }
            }
        }
    }

    /// Adds permissions to apply children.
    fn add_applying(&mut self, served: &Served) {
        let scopes = self.scopes_of(served);
        let verbs = ["create", "get", "patch"];
        self.add(&scopes, &served.group, &served.plural, None, &verbs);
    }

    /// Adds permissions to block the deletion of owners by their children, now or if needed.
    fn add_owner(&mut self, served: &Served, is_needed: bool) {
        if served.plural == "*" {
            return;
        }
        for scope in self.scopes_of(served) {
            let permission = Permission {
                scope,
                group: served.group.clone(),
                resource: format!("{}/finalizers", served.plural),
                name: None,
                verb: "update".to_owned(),
            };
            if is_needed {
                self.permissions.insert(permission.clone());
            }
            self.owners.insert(permission);
        }
    }

    fn scopes_of(&self, served: &Served) -> Vec<PermissionScope> {
        if served.is_namespaced {
            self.scopes.clone()
        } else {
            vec![PermissionScope::Cluster]
        }
    }

    fn add_object(&mut self, served: &Served, is_writing: bool) {
        let scopes = self.scopes_of(served);
        self.add(&scopes, &served.group, &served.plural, None, &WATCHING);
        if is_writing && served.is_patchable {
            self.add(&scopes, &served.group, &served.plural, None, &["patch"]);
            if served.has_status && served.plural != "*" {
                let status = format!("{}/status", served.plural);
                self.add(&scopes, &served.group, &status, None, &["patch"]);
            }
        }
    }

    fn add_events(&mut self, served: &Served) {
        let scopes = match self.scopes.first() {
            Some(PermissionScope::Namespace(_)) if !served.is_namespaced => {
                vec![PermissionScope::Namespace(DEFAULT_NAMESPACE.to_owned())]
            }
            _ => self.scopes.clone(),
        };
        self.add(&scopes, "", "events", None, &["create"]);
    }

    fn add_scanning<F>(&mut self, usage: &Usage<'_, F>) {
        if usage.settings.scanning.disabled {
            return;
        }
        let cluster = [PermissionScope::Cluster];
        let (group, plural) = ("apiextensions.k8s.io", "customresourcedefinitions");
        self.add(&cluster, group, plural, None, &WATCHING);
        if matches!(usage.scope, Scope::Namespaces(_)) {
            self.add(&cluster, "", "namespaces", None, &WATCHING);
        }
    }

    fn add_peering<F>(&mut self, usage: &Usage<'_, F>) {
        let settings = &usage.settings.peering;
        if settings.standalone {
            return;
        }
        let is_clusterwide = matches!(usage.scope, Scope::Cluster);
        let (scopes, plural) = if is_clusterwide {
            (vec![PermissionScope::Cluster], peering::CLUSTER_PLURAL)
        } else {
            (self.scopes.clone(), peering::NAMESPACED_PLURAL)
        };
        for group in peering::GROUPS {
            let known = usage.resources.iter().find(|resource| {
                resource.group == group
                    && resource.plural == plural
                    && resource.version == peering::VERSION
            });
            let is_assumed = usage.coverage == Coverage::Partial && group == peering::GROUPS[0];
            if known.is_none() && !is_assumed {
                continue;
            }
            self.add(&scopes, group, plural, None, &WATCHING);
            let name = Some(settings.name.as_str());
            self.add(&scopes, group, plural, name, &["patch"]);
            if known.is_some_and(|resource| resource.has_status()) {
                let status = format!("{plural}/status");
                self.add(&scopes, group, &status, name, &["patch"]);
            }
        }
    }

    fn add_admission<F>(&mut self, usage: &Usage<'_, F>) {
        let mut handlers = usage.registry.handlers().iter();
        let is_reviewing = handlers.any(|handler| handler.kind.webhook_type().is_some());
        let settings = &usage.settings.admission;
        let Some(managed) = &settings.managed else {
            if is_reviewing && usage.coverage == Coverage::Partial {
                self.remarks.insert(Remark::UnmanagedWebhooks);
            }
            return;
        };
        let is_converting = self.add_conversions(usage);
        if !is_reviewing && !is_converting && settings.server.is_none() {
            return;
        }
        // Both configurations are managed: one that has lost its last handler is emptied.
        for plural in [
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
        ] {
            let (cluster, group) = ([PermissionScope::Cluster], "admissionregistration.k8s.io");
            self.add(&cluster, group, plural, None, &["create"]);
            let verbs = ["list", "patch", "watch"];
            self.add(&cluster, group, plural, Some(managed), &verbs);
        }
    }

    /// Adds permissions for `spec.conversion` of CRDs. Returns `true` if there are conversion handlers.
    fn add_conversions<F>(&mut self, usage: &Usage<'_, F>) -> bool {
        let (group, plural) = ("apiextensions.k8s.io", "customresourcedefinitions");
        let mut is_converting = false;
        for handler in usage.registry.handlers() {
            let Some(selector) = &handler.selector else {
                continue;
            };
            if handler.kind != HandlerKind::Convert {
                continue;
            }
            is_converting = true;
            for served in self.served(selector, usage) {
                let name = format!("{}.{}", served.plural, served.group);
                let name = (!name.contains('*')).then_some(name);
                self.add(
                    &[PermissionScope::Cluster],
                    group,
                    plural,
                    name.as_deref(),
                    &["patch"],
                );
            }
        }
        is_converting
    }

    fn add_options(&mut self, options: &Options) {
        if let Leases::In(namespace) = &options.leases {
            let scopes = [PermissionScope::Namespace(namespace.clone())];
            let verbs = ["create", "delete", "get", "list", "update"];
            self.add(&scopes, "coordination.k8s.io", "leases", None, &verbs);
        }
        if options.installs_definitions {
            let (group, plural) = ("apiextensions.k8s.io", "customresourcedefinitions");
            let verbs = ["create", "get", "patch"];
            self.add(&[PermissionScope::Cluster], group, plural, None, &verbs);
        }
    }

    /// Adds permissions for the Secret with the certificate that replicas share. A name cannot restrict
    /// the creation of objects.
    fn add_certificate<F>(&mut self, usage: &Usage<'_, F>) {
        let mut handlers = usage.registry.handlers().iter();
        let is_serving = handlers.any(|handler| {
            handler.kind.webhook_type().is_some() || handler.kind == HandlerKind::Convert
        });
        let secret = usage.settings.leading.certificate_secret_name();
        if let (Leases::In(namespace), Some(name), true) =
            (&usage.options.leases, secret, is_serving)
        {
            let scopes = [PermissionScope::Namespace(namespace.clone())];
            self.add(&scopes, "", "secrets", None, &["create"]);
            self.add(&scopes, "", "secrets", Some(&name), &["get", "update"]);
        }
    }

    /// Returns the resources of a selector.
    fn served<F>(&mut self, selector: &Selector, usage: &Usage<'_, F>) -> Vec<Served> {
        let is_partial = usage.coverage == Coverage::Partial;
        if is_partial && selector.is_everything() {
            return vec![Served::named(selector.group().unwrap_or("*"), "*")];
        }
        let watchable = usage
            .resources
            .iter()
            .copied()
            .filter(|resource| WATCHING.iter().all(|verb| resource.verbs.contains(*verb)));
        let mut selected = selector.select(watchable);
        // Permissions do not depend on versions.
        selected.dedup_by(|one, other| one.group == other.group && one.plural == other.plural);
        if !selector.is_specific() {
            if is_partial {
                self.remarks.insert(Remark::KnownOnly(selector.to_string()));
            }
            return selected.into_iter().map(Served::known).collect();
        }
        match (selected.as_slice(), is_partial) {
            ([one], _) => vec![Served::known(one)],
            ([], true) => self.assumed(selector).into_iter().collect(),
            ([], false) => Vec::new(),
            _ => {
                self.remarks.insert(Remark::Ambiguous(selector.to_string()));
                Vec::new()
            }
        }
    }

    /// Takes the resource of a selector from its text: plural names are in lower case, kinds are not.
    fn assumed(&mut self, selector: &Selector) -> Option<Served> {
        let is_plural = |name: &&str| name.chars().all(|char| !char.is_ascii_uppercase());
        let Some(plural) = selector.plural().filter(is_plural) else {
            self.remarks
                .insert(Remark::Unresolved(selector.to_string()));
            return None;
        };
        if selector.group().is_none() {
            self.remarks.insert(Remark::AnyGroup(selector.to_string()));
        }
        Some(Served::named(selector.group().unwrap_or("*"), plural))
    }

    fn add(
        &mut self,
        scopes: &[PermissionScope],
        group: &str,
        resource: &str,
        name: Option<&str>,
        verbs: &[&str],
    ) {
        for scope in scopes {
            for verb in verbs {
                self.permissions.insert(Permission {
                    scope: scope.clone(),
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    name: name.map(str::to_owned),
                    verb: (*verb).to_owned(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
