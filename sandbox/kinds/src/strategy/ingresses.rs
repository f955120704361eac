//! Ingresses.

use super::{Generation, Strategy};

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    generation: Generation::Spec,
    ..Strategy::DEFAULT
};
