//! ClusterRoles.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::Value;

use super::{NameRule, Strategy};
use crate::rules::roles;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    names: NameRule::PathSegment,
    creates_on_update: true,
    check_spec,
    ..Strategy::DEFAULT
};

fn check_spec(object: &Value, errors: &mut Vec<FieldError>) {
    roles::check_role("clusterroles", object, errors);
}
