//! Configurations of admission: webhooks, policies and their bindings.

use super::{Generation, Strategy};

/// The rules of these kinds.
pub(super) const STRATEGY: Strategy = Strategy {
    qualified_finalizers: false,
    generation: Generation::Spec,
    allows_unconditional_update: false,
    ..Strategy::DEFAULT
};
