//! APIServices.

use super::{NameRule, Strategy};
use crate::rules::api_services;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    names: NameRule::PathSegment,
    qualified_finalizers: false,
    allows_unconditional_update: false,
    check_spec: api_services::check,
    ..Strategy::DEFAULT
};
