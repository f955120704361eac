//! StorageClasses.

use super::Strategy;
use crate::rules::updates::Change;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    deletion_returns_object: true,
    check_change,
    ..Strategy::DEFAULT
};

fn check_change(change: &mut Change<'_>) {
    change.keep("/parameters", "parameters");
    change.keep("/provisioner", "provisioner");
    change.keep("/reclaimPolicy", "reclaimPolicy");
    change.keep("/volumeBindingMode", "volumeBindingMode");
}
