//! The differences between kinds beyond their types: one [`Strategy`] per kind, in a file of its own.

mod admission;
mod api_services;
mod attributes_classes;
mod claims;
mod cluster_role_bindings;
mod cluster_roles;
mod config_maps;
mod controller_revisions;
mod core_events;
mod cron_jobs;
mod csi_drivers;
mod csi_nodes;
mod daemon_sets;
mod definitions;
mod deployments;
mod device_classes;
mod disruption_budgets;
mod endpoint_slices;
mod endpoints;
mod events;
mod flow_control;
mod ingress_classes;
mod ingresses;
mod ip_addresses;
mod jobs;
mod leases;
mod limit_ranges;
mod namespaces;
mod network_policies;
mod nodes;
mod pod_templates;
mod pods;
mod priority_classes;
mod quotas;
mod replica_sets;
mod replication_controllers;
mod resource_claims;
mod resource_slices;
mod role_bindings;
mod roles;
mod runtime_classes;
mod secrets;
mod service_accounts;
mod service_ranges;
mod services;
mod signing_requests;
mod stateful_sets;
mod storage_capacities;
mod storage_classes;
mod volume_attachments;
mod volumes;

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::kind::{Kind, KindVersion};
use serde_json::Value;

use crate::rules::updates::Change;

/// The treatment of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The changes that `metadata.generation` of a kind counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The kind has no generation.
    None,
    /// The generation is always 1.
    Constant,
    Spec,
    SpecAndAnnotations,
    SpecAndLabels,
}

/// The syntax of the names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain: most kinds.
    Subdomain,
    /// RFC 1123 label.
    Label,
    /// Any segment of a path. Other names of these kinds are not checked by a real server: that of
    /// the legacy API service is `v1.`.
    PathSegment,
    /// An IP address in its canonical form.
    Address,
}

/// The fields of a kind that field selectors support, beside the name.
#[derive(Debug, Clone, Copy)]
pub struct Selectable {
    pub fields: &'static [&'static str],
    /// `true` if `metadata.namespace` is supported.
    pub namespace: bool,
    /// Returns the error of an unsupported field.
    pub(crate) refuse: fn(&str) -> String,
}

impl Selectable {
    const fn of(fields: &'static [&'static str], namespace: bool) -> Self {
        Self {
            fields,
            namespace,
            refuse: unsupported,
        }
    }
}

fn unsupported(field: &str) -> String {
    format!("field label not supported: {field}")
}

fn unknown(field: &str) -> String {
    format!(
        "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    )
}

/// The rules of one kind.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent of each other"
)]
pub struct Strategy {
    pub names: NameRule,
    /// `true` if finalizers must have a domain. A real server requires it only for some kinds.
    pub(crate) qualified_finalizers: bool,
    pub generation: Generation,
    /// `true` if an update of an absent object creates it.
    pub creates_on_update: bool,
    /// `true` if the status of a new object is dropped.
    pub drops_new_status: bool,
    /// `true` if a write to the status ignores all metadata.
    pub status_keeps_metadata: bool,
    /// The metadata field that a write to the status ignores, where it can change other metadata.
    pub metadata_kept_by_status: Option<&'static str>,
    /// `true` if updates without a `resourceVersion` are allowed.
    pub allows_unconditional_update: bool,
    /// The default propagation policy of deletions. `None` for kinds whose objects cannot have
    /// dependents: the requested policy is ignored for these.
    pub default_propagation: Option<Propagation>,
    /// `true` if a deletion returns the object instead of a `Status`.
    pub deletion_returns_object: bool,
    pub selectable: Selectable,
    /// Sets defaults of a new object, which its creator owns.
    pub default_new: fn(&mut Value),
    /// Completes a new object.
    pub complete_new: fn(&mut Value),
    /// Completes a changed object. The arguments are the subresource of the request, the object
    /// before the change, and the object.
    pub complete_changed: fn(Option<&str>, &Value, &mut Value),
    /// Checks an object at every write.
    pub check: fn(&Value, &mut Vec<FieldError>),
    /// Checks an object, except at writes to its status.
    pub(crate) check_spec: fn(&Value, &mut Vec<FieldError>),
    /// Checks a new object.
    pub(crate) check_new: fn(&Value, &mut Vec<FieldError>),
    /// Checks a change of an object.
    pub(crate) check_change: fn(&mut Change<'_>),
}

impl Strategy {
    /// The rules of built-in kinds without any of their own.
    const DEFAULT: Self = Self {
        names: NameRule::Subdomain,
        qualified_finalizers: true,
        generation: Generation::None,
        creates_on_update: false,
        drops_new_status: true,
        status_keeps_metadata: false,
        metadata_kept_by_status: None,
        allows_unconditional_update: true,
        default_propagation: Some(Propagation::Background),
        deletion_returns_object: false,
        // Both names are supported, also for cluster-scoped kinds.
        selectable: Selectable {
            fields: &[],
            namespace: true,
            refuse: unknown,
        },
        default_new: |_| {},
        complete_new: |_| {},
        complete_changed: |_, _, _| {},
        check: |_, _| {},
        check_spec: |_, _| {},
        check_new: |_, _| {},
        check_change: |_| {},
    };

    /// The rules of custom resources.
    const CUSTOM: Self = Self {
        qualified_finalizers: false,
        generation: Generation::Spec,
        status_keeps_metadata: true,
        allows_unconditional_update: false,
        selectable: Selectable::of(&[], true),
        ..Self::DEFAULT
    };

    /// Returns the rules of a kind.
    pub fn of(kind: &Kind) -> &'static Self {
        if kind.is_custom() {
            return &Self::CUSTOM;
        }
        match &*kind.group {
            "" => Self::of_core(&kind.plural),
            group => Self::of_group(group, &kind.plural),
        }
    }

    fn of_core(plural: &str) -> &'static Self {
        match plural {
            "configmaps" => &config_maps::STRATEGY,
            "endpoints" => &endpoints::STRATEGY,
            "events" => &core_events::STRATEGY,
            "limitranges" => &limit_ranges::STRATEGY,
            "namespaces" => &namespaces::STRATEGY,
            "nodes" => &nodes::STRATEGY,
            "persistentvolumeclaims" => &claims::STRATEGY,
            "persistentvolumes" => &volumes::STRATEGY,
            "pods" => &pods::STRATEGY,
            "podtemplates" => &pod_templates::STRATEGY,
            "replicationcontrollers" => &replication_controllers::STRATEGY,
            "resourcequotas" => &quotas::STRATEGY,
            "secrets" => &secrets::STRATEGY,
            "serviceaccounts" => &service_accounts::STRATEGY,
            "services" => &services::STRATEGY,
            _ => &Self::DEFAULT,
        }
    }

    fn of_group(group: &str, plural: &str) -> &'static Self {
        match (group, plural) {
            ("apps", "controllerrevisions") => &controller_revisions::STRATEGY,
            ("apps", "daemonsets") => &daemon_sets::STRATEGY,
            ("apps", "deployments") => &deployments::STRATEGY,
            ("apps", "replicasets") => &replica_sets::STRATEGY,
            ("apps", "statefulsets") => &stateful_sets::STRATEGY,
            ("batch", "cronjobs") => &cron_jobs::STRATEGY,
            ("batch", "jobs") => &jobs::STRATEGY,
            ("policy", "poddisruptionbudgets") => &disruption_budgets::STRATEGY,
            ("apiextensions.k8s.io", "customresourcedefinitions") => &definitions::STRATEGY,
            ("admissionregistration.k8s.io", _) => &admission::STRATEGY,
            ("flowcontrol.apiserver.k8s.io", _) => &flow_control::STRATEGY,
            ("resource.k8s.io", "deviceclasses") => &device_classes::STRATEGY,
            ("resource.k8s.io", "resourceclaims" | "resourceclaimtemplates") => {
                &resource_claims::STRATEGY
            }
            ("resource.k8s.io", "resourceslices") => &resource_slices::STRATEGY,
            ("networking.k8s.io", "ingresses") => &ingresses::STRATEGY,
            ("networking.k8s.io", "ingressclasses") => &ingress_classes::STRATEGY,
            ("networking.k8s.io", "networkpolicies") => &network_policies::STRATEGY,
            ("networking.k8s.io", "ipaddresses") => &ip_addresses::STRATEGY,
            ("networking.k8s.io", "servicecidrs") => &service_ranges::STRATEGY,
            ("discovery.k8s.io", "endpointslices") => &endpoint_slices::STRATEGY,
            ("events.k8s.io", "events") => &events::STRATEGY,
            ("scheduling.k8s.io", "priorityclasses") => &priority_classes::STRATEGY,
            ("rbac.authorization.k8s.io", "roles") => &roles::STRATEGY,
            ("rbac.authorization.k8s.io", "clusterroles") => &cluster_roles::STRATEGY,
            ("rbac.authorization.k8s.io", "rolebindings") => &role_bindings::STRATEGY,
            ("rbac.authorization.k8s.io", "clusterrolebindings") => {
                &cluster_role_bindings::STRATEGY
            }
            ("coordination.k8s.io", "leases") => &leases::STRATEGY,
            ("node.k8s.io", "runtimeclasses") => &runtime_classes::STRATEGY,
            ("apiregistration.k8s.io", "apiservices") => &api_services::STRATEGY,
            ("storage.k8s.io", "storageclasses") => &storage_classes::STRATEGY,
            ("storage.k8s.io", "csidrivers") => &csi_drivers::STRATEGY,
            ("storage.k8s.io", "csinodes") => &csi_nodes::STRATEGY,
            ("storage.k8s.io", "csistoragecapacities") => &storage_capacities::STRATEGY,
            ("storage.k8s.io", "volumeattachments") => &volume_attachments::STRATEGY,
            ("storage.k8s.io", "volumeattributesclasses") => &attributes_classes::STRATEGY,
            ("certificates.k8s.io", "certificatesigningrequests") => &signing_requests::STRATEGY,
            _ => &Self::DEFAULT,
        }
    }

    /// Returns the errors of a written object, in the order of a real server.
    pub fn problems(&self, object: &Value, is_status: bool, is_new: bool) -> Vec<FieldError> {
        let mut errors = Vec::new();
        (self.check)(object, &mut errors);
        if !is_status {
            (self.check_spec)(object, &mut errors);
        }
        if is_new {
            (self.check_new)(object, &mut errors);
        }
        errors
    }

    /// Returns the errors of a change.
    pub fn change_problems(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut change = Change::new(object, old);
        (self.check_change)(&mut change);
        change.errors
    }
}

/// Returns `true` if the status is written only through its subresource.
pub fn status_is_separate(version: &KindVersion) -> bool {
    version.subresource("status").is_some()
}
