//! ServiceCIDRs.

use super::Strategy;
use crate::rules::updates;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    status_keeps_metadata: true,
    allows_unconditional_update: false,
    check_change: updates::service_ranges,
    ..Strategy::DEFAULT
};
