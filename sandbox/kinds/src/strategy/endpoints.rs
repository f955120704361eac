//! Endpoints.

use super::Strategy;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    creates_on_update: true,
    ..Strategy::DEFAULT
};
