//! NetworkPolicies.

use super::{Generation, Strategy};
use crate::rules::network_policies;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    generation: Generation::Spec,
    check_spec: network_policies::check,
    ..Strategy::DEFAULT
};
