//! Immutable fields of jobs.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::{Map, Value};

use super::{IMMUTABLE, differ, field, items, text};

/// Returns the errors of changes of immutable fields of a job, in the order of a real server.
pub(crate) fn problems(job: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(completions(job, old));
    errors.extend(immutable(job, old, "selector"));
    errors.extend(template(job, old));
    for field in [
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
    if !differ(of(job, field), of(old, field)) {
        return None;
    }
    let value = of(job, field).cloned().unwrap_or_default();
    let at = format!("spec.{field}");
    Some(FieldError::invalid(at, &value, IMMUTABLE))
}

/// Checks the template. While a job is suspended and has no pods, restrictions to nodes and the
/// resources of containers can change.
fn template(job: &Value, old: &Value) -> Option<FieldError> {
    let status = field(old, "status");
    let is_suspended = items(status, "conditions").iter().any(|condition| {
        text(condition, "type") == "Suspended" && text(condition, "status") == "True"
    });
    let is_free = field(field(old, "spec"), "suspend") == &Value::Bool(true)
        && (field(status, "startTime").is_null() || is_suspended)
        && field(status, "active").as_i64().unwrap_or(0) == 0;
    if !is_free {
        return immutable(job, old, "template");
    }
    let pod = |job: &Value| job.pointer("/spec/template/spec").cloned();
    let (is, was) = (pod(job)?, pod(old)?);
    (fixed(&is, &is) != fixed(&was, &is))
        .then(|| FieldError::invalid("spec.template.spec", &is, IMMUTABLE))
}

/// Returns a pod without the fields that can change in a suspended job; `new` is the new pod.
fn fixed(pod: &Value, new: &Value) -> Map<String, Value> {
    let mut fixed = pod.as_object().cloned().unwrap_or_default();
    for name in ["nodeSelector", "tolerations", "schedulingGates"] {
        fixed.remove(name);
    }
    if let Some(affinity) = fixed.get_mut("affinity").and_then(Value::as_object_mut) {
        affinity.remove("nodeAffinity");
        if affinity.is_empty() {
            fixed.remove("affinity");
        }
    }
    for list in ["containers", "initContainers"] {
        let names = items(new, list)
            .iter()
            .map(|container| text(container, "name"));
        let containers = fixed.get_mut(list).and_then(Value::as_array_mut);
        for (container, name) in containers.into_iter().flatten().zip(names) {
            let same = text(container, "name") == name;
            if let Some(container) = container.as_object_mut().filter(|_| same) {
                container.remove("resources");
            }
        }
    }
    fixed
}

/// Checks the completions. Those of indexed jobs can follow the parallelism.
fn completions(job: &Value, old: &Value) -> Option<FieldError> {
    if of(job, "completionMode").is_none_or(|mode| mode != "Indexed") {
        return immutable(job, old, "completions");
    }
    // Their absence is an error of the job itself.
    let completions = of(job, "completions")?;
    if Some(completions) == of(old, "completions") || Some(completions) == of(job, "parallelism") {
        return None;
    }
    let why = "can only be modified in tandem with spec.parallelism";
    Some(FieldError::invalid("spec.completions", completions, why))
}
