//! Differences between built-in kinds beyond their types.

use super::{Kind, KindVersion};
use crate::request::options::Propagation;

/// The changes that `metadata.generation` of a kind counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The kind has no generation.
    None,
    /// The generation is always 1.
    Constant,
    Spec,
    SpecAndAnnotations,
    SpecAndLabels,
}

pub(crate) fn generation(kind: &Kind) -> Generation {
    if kind.is_custom() {
        return Generation::Spec;
    }
    match (&*kind.group, &*kind.plural) {
        ("apps", "deployments") => Generation::SpecAndAnnotations,
        ("discovery.k8s.io", "endpointslices") => Generation::SpecAndLabels,
        ("scheduling.k8s.io", "priorityclasses") => Generation::Constant,
        ("", "pods" | "podtemplates" | "replicationcontrollers")
        | ("apps", "daemonsets" | "replicasets" | "statefulsets")
        | (
            "batch"
            | "policy"
            | "apiextensions.k8s.io"
            | "admissionregistration.k8s.io"
            | "flowcontrol.apiserver.k8s.io",
            _,
        )
        | ("resource.k8s.io", "deviceclasses" | "resourceslices")
        | ("networking.k8s.io", "ingresses" | "ingressclasses" | "networkpolicies") => {
            Generation::Spec
        }
        _ => Generation::None,
    }
}

/// Returns `true` if an update of an absent object creates it.
pub(crate) fn creates_on_update(kind: &Kind) -> bool {
    matches!(
        (&*kind.group, &*kind.plural),
        ("", "services" | "endpoints" | "limitranges" | "events")
            | ("events.k8s.io", "events")
            | ("rbac.authorization.k8s.io", _)
            | ("coordination.k8s.io", "leases")
            | ("node.k8s.io", "runtimeclasses")
    )
}

/// Returns `true` if a write to the status ignores all metadata.
pub(crate) fn status_keeps_metadata(kind: &Kind) -> bool {
    kind.is_custom() || matches!(&*kind.plural, "servicecidrs" | "volumeattachments")
}

/// Returns the metadata field that a write to the status ignores, where it can change other
/// metadata.
pub(crate) fn metadata_kept_by_status(kind: &Kind) -> Option<&'static str> {
    match (&*kind.group, &*kind.plural) {
        ("apps", "deployments") => Some("labels"),
        ("", "pods") => Some("ownerReferences"),
        _ => None,
    }
}

/// Returns `true` if the status is written only through its subresource.
pub(crate) fn status_is_separate(version: &KindVersion) -> bool {
    version.subresource("status").is_some()
}

/// Returns `true` if updates without a `resourceVersion` are allowed.
pub(crate) fn allows_unconditional_update(kind: &Kind) -> bool {
    if kind.is_custom() {
        return false;
    }
    !matches!(
        (&*kind.group, &*kind.plural),
        (
            "coordination.k8s.io"
                | "apiextensions.k8s.io"
                | "apiregistration.k8s.io"
                | "admissionregistration.k8s.io",
            _
        ) | ("policy", "poddisruptionbudgets")
            | ("discovery.k8s.io", "endpointslices")
            | ("networking.k8s.io", "ipaddresses" | "servicecidrs")
    )
}

/// Returns the default propagation policy of deletions. `None` for kinds whose objects cannot have
/// dependents: the requested policy is ignored for these.
pub(crate) fn default_propagation(kind: &Kind) -> Option<Propagation> {
    match (&*kind.group, &*kind.plural) {
        ("" | "events.k8s.io", "events") => None,
        ("", "replicationcontrollers") | ("batch", "jobs") => Some(Propagation::Orphan),
        _ => Some(Propagation::Background),
    }
}

/// Returns `true` if a deletion returns the object instead of a `Status`.
pub(crate) fn deletion_returns_object(kind: &Kind) -> bool {
    match &*kind.group {
        "" => matches!(
            &*kind.plural,
            "pods"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "podtemplates"
                | "replicationcontrollers"
                | "resourcequotas"
                | "services"
                | "serviceaccounts"
        ),
        "storage.k8s.io" => matches!(
            &*kind.plural,
            "storageclasses" | "csidrivers" | "csinodes" | "volumeattachments"
        ),
        _ => false,
    }
}
