//! DaemonSets.

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::typing::creation;
use serde_json::Value;

use super::{Generation, Strategy};
use crate::rules::updates::Change;
use crate::rules::workloads;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    generation: Generation::Spec,
    default_new: complete_new,
    complete_new,
    check_spec,
    check_change,
    ..Strategy::DEFAULT
};

fn complete_new(object: &mut Value) {
    creation::assign("apps", "DaemonSet", object);
}

fn check_spec(object: &Value, errors: &mut Vec<FieldError>) {
    workloads::check("daemonsets", object, errors);
}

fn check_change(change: &mut Change<'_>) {
    change.keep("/spec/selector", "spec.selector");
}
