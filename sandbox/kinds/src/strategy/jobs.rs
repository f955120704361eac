//! Jobs.

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::typing::creation;
use serde_json::Value;

use super::{Generation, Propagation, Selectable, Strategy};
use crate::rules::updates::Change;
use crate::rules::{updates, workloads};

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    generation: Generation::Spec,
    default_propagation: Some(Propagation::Orphan),
    complete_new,
    check_spec,
    check_change,
    selectable: Selectable {
        refuse: unsupported,
        ..Selectable::of(&["status.successful"], true)
    },
    ..Strategy::DEFAULT
};

fn complete_new(job: &mut Value) {
    creation::assign("batch", "Job", job);
}

fn check_spec(object: &Value, errors: &mut Vec<FieldError>) {
    workloads::check("jobs", object, errors);
}

fn check_change(change: &mut Change<'_>) {
    let problems = updates::jobs::problems(change.new, change.old);
    change.errors.extend(problems);
}

fn unsupported(field: &str) -> String {
    format!("field label {field:?} not supported for Job")
}
