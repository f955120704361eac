//! Deployments.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::Value;

use super::{Generation, Strategy};
use crate::rules::updates::Change;
use crate::rules::workloads;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    generation: Generation::SpecAndAnnotations,
    metadata_kept_by_status: Some("labels"),
    check_spec,
    check_change,
    ..Strategy::DEFAULT
};

fn check_spec(object: &Value, errors: &mut Vec<FieldError>) {
    workloads::check("deployments", object, errors);
}

fn check_change(change: &mut Change<'_>) {
    change.keep("/spec/selector", "spec.selector");
}
