//! CSINodes.

use super::Strategy;
use crate::rules::updates;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    deletion_returns_object: true,
    check_change: updates::csi_node,
    ..Strategy::DEFAULT
};
