//! CRDs of peering objects, and the default objects.

/// The API group of peering objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeeringGroup {
    /// `kopf.dev`
    Current,
    /// `zalando.org`, which operators of old releases use.
    Legacy,
}

/// Returns the CRDs of peering objects and the objects named `default`, in YAML for kubectl.
pub fn peering(group: PeeringGroup) -> &'static str {
    match group {
        PeeringGroup::Current => include_str!("../manifests/peering.yaml"),
        PeeringGroup::Legacy => include_str!("../manifests/peering-legacy.yaml"),
    }
}
