//! CRDs of peering objects, and the default objects.

/// The API group of peering objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeeringGroup {
    /// `kopf.dev`
    Current,
    /// `zalando.org`, used by operators of old releases.
    Legacy,
}

/// Returns the CRDs of peering objects and the objects named `default` as YAML.
pub fn peering(group: PeeringGroup) -> &'static str {
    match group {
        PeeringGroup::Current => include_str!("../manifests/peering.yaml"),
        PeeringGroup::Legacy => include_str!("../manifests/peering-legacy.yaml"),
    }
}
