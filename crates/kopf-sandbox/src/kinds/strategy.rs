//! How built-in kinds differ from each other, beyond their types.

use super::{Kind, KindVersion};

/// Whether `metadata.generation` counts changes of the specification.
pub(crate) fn has_generation(kind: &Kind) -> bool {
    if kind.is_custom() {
        return true;
    }
    match &*kind.group {
        "" => matches!(&*kind.plural, "pods" | "replicationcontrollers"),
        "apps" => &*kind.plural != "controllerrevisions",
        "batch" | "networking.k8s.io" => !matches!(&*kind.plural, "ingressclasses" | "ipaddresses"),
        "policy"
        | "discovery.k8s.io"
        | "apiextensions.k8s.io"
        | "admissionregistration.k8s.io"
        | "scheduling.k8s.io" => true,
        _ => false,
    }
}

/// Whether the status can be written through its subresource only.
pub(crate) fn status_is_separate(version: &KindVersion) -> bool {
    version.subresource("status").is_some()
}

/// Whether an update may leave the resourceVersion out.
pub(crate) fn allows_unconditional_update(kind: &Kind) -> bool {
    if kind.is_custom() {
        return false;
    }
    !matches!(
        (&*kind.group, &*kind.plural),
        (
            "coordination.k8s.io" | "apiextensions.k8s.io" | "admissionregistration.k8s.io",
            _
        ) | ("policy", "poddisruptionbudgets")
            | ("discovery.k8s.io", "endpointslices")
            | ("networking.k8s.io", "ipaddresses" | "servicecidrs")
    )
}

/// Whether a deletion answers with the object instead of a `Status`.
pub(crate) fn deletion_returns_object(kind: &Kind) -> bool {
    kind.group.is_empty()
        && matches!(
            &*kind.plural,
            "pods"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "podtemplates"
                | "replicationcontrollers"
                | "resourcequotas"
                | "services"
                | "serviceaccounts"
        )
}
