//! ClusterRoleBindings.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::Value;

use super::{NameRule, Strategy};
use crate::rules::roles;
use crate::rules::updates::Change;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    names: NameRule::PathSegment,
    creates_on_update: true,
    check_spec,
    check_change,
    ..Strategy::DEFAULT
};

fn check_spec(object: &Value, errors: &mut Vec<FieldError>) {
    roles::check_binding("clusterrolebindings", object, errors);
}

fn check_change(change: &mut Change<'_>) {
    change.keep_because("/roleRef", "roleRef", "cannot change roleRef");
}
