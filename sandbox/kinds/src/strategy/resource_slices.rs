//! ResourceSlices.

use super::{Generation, Selectable, Strategy};
use crate::rules::updates::Change;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    generation: Generation::Spec,
    check_change,
    selectable: Selectable {
        refuse: unsupported,
        ..Selectable::of(&["spec.driver", "spec.nodeName"], false)
    },
    ..Strategy::DEFAULT
};

fn check_change(change: &mut Change<'_>) {
    for name in ["driver", "pool/name", "nodeName"] {
        let at = format!("spec.{}", name.replace('/', "."));
        change.keep(&format!("/spec/{name}"), &at);
    }
}

fn unsupported(field: &str) -> String {
    format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}")
}
