//! PriorityClasses.

use super::{Generation, Strategy};
use crate::rules::updates::Change;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    generation: Generation::Constant,
    check_change,
    ..Strategy::DEFAULT
};

fn check_change(change: &mut Change<'_>) {
    change.forbid("/value", "value", "may not be changed in an update.");
    change.keep("/preemptionPolicy", "preemptionPolicy");
}
