//! ResourceClaims and their templates.

use super::Strategy;
use crate::rules::updates::Change;

/// The rules of these kinds.
pub(super) const STRATEGY: Strategy = Strategy {
    check_change,
    ..Strategy::DEFAULT
};

fn check_change(change: &mut Change<'_>) {
    change.keep("/spec", "spec");
}
