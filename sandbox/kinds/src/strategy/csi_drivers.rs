//! CSIDrivers.

use super::Strategy;
use crate::rules::updates::Change;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    deletion_returns_object: true,
    check_change,
    ..Strategy::DEFAULT
};

fn check_change(change: &mut Change<'_>) {
    // The path is misspelt by a real server.
    change.keep("/spec/attachRequired", "spec.attachedRequired");
    change.keep("/spec/volumeLifecycleModes", "spec.volumeLifecycleModes");
}
