//! FlowSchemas and PriorityLevelConfigurations.

use super::{Generation, Strategy};

/// The rules of these kinds.
pub(super) const STRATEGY: Strategy = Strategy {
    generation: Generation::Spec,
    ..Strategy::DEFAULT
};
