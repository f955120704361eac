//! Immutable fields of jobs.

use serde_json::Value;

use crate::field_error::FieldError;

/// Returns the errors of changes of immutable fields of a job, in the order of a real server.
pub(super) fn update_problems(job: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(completions(job, old));
    for field in [
        "selector",
        "template",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        errors.extend(immutable(job, old, field));
    }
    errors
}

fn of<'a>(job: &'a Value, field: &str) -> Option<&'a Value> {
    job.get("spec")?.get(field)
}

fn immutable(job: &Value, old: &Value, field: &str) -> Option<FieldError> {
    if of(job, field) == of(old, field) {
        return None;
    }
    let value = of(job, field).cloned().unwrap_or_default();
    let at = format!("spec.{field}");
    Some(FieldError::invalid(at, &value, "field is immutable"))
}

/// Checks the completions. Those of indexed jobs can follow the parallelism.
fn completions(job: &Value, old: &Value) -> Option<FieldError> {
    if of(job, "completionMode").is_none_or(|mode| mode != "Indexed") {
        return immutable(job, old, "completions");
    }
    let Some(completions) = of(job, "completions") else {
        let why = "when completion mode is Indexed";
        return Some(FieldError::required("spec.completions", why));
    };
    if Some(completions) == of(old, "completions") || Some(completions) == of(job, "parallelism") {
        return None;
    }
    let why = "can only be modified in tandem with spec.parallelism";
    Some(FieldError::invalid("spec.completions", completions, why))
}
