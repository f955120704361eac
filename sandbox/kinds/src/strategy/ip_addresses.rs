//! IPAddresses.

use super::{NameRule, Strategy};
use crate::rules::updates::Change;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    names: NameRule::Address,
    allows_unconditional_update: false,
    check_change,
    ..Strategy::DEFAULT
};

fn check_change(change: &mut Change<'_>) {
    change.keep("/spec/parentRef", "spec.parentRef");
}
