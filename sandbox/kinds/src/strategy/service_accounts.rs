//! ServiceAccounts.

use super::Strategy;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    deletion_returns_object: true,
    ..Strategy::DEFAULT
};
