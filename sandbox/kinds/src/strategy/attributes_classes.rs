//! VolumeAttributesClasses.

use super::Strategy;
use crate::rules::updates::Change;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    check_change,
    ..Strategy::DEFAULT
};

fn check_change(change: &mut Change<'_>) {
    for name in ["driverName", "parameters"] {
        let why = format!("updates to {name} are forbidden.");
        change.forbid(&format!("/{name}"), name, &why);
    }
}
