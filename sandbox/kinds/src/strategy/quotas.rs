//! ResourceQuotas.

use super::Strategy;
use crate::rules::{quotas, updates};

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    deletion_returns_object: true,
    check_spec: quotas::check,
    check_change: updates::quota_scopes,
    ..Strategy::DEFAULT
};
