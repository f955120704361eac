//! PodDisruptionBudgets.

use super::{Generation, NameRule, Strategy};

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    names: NameRule::PathSegment,
    qualified_finalizers: false,
    generation: Generation::Spec,
    allows_unconditional_update: false,
    ..Strategy::DEFAULT
};
