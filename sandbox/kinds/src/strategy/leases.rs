//! Leases.

use super::Strategy;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    qualified_finalizers: false,
    creates_on_update: true,
    allows_unconditional_update: false,
    ..Strategy::DEFAULT
};
