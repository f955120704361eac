//! Pods.

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::typing::creation;
use serde_json::Value;

use super::{Generation, Selectable, Strategy};
use crate::rules::{field, pods, updates};

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    generation: Generation::Spec,
    metadata_kept_by_status: Some("ownerReferences"),
    deletion_returns_object: true,
    complete_new,
    complete_changed,
    check_spec,
    check_new: pods::check_new,
    check_change: updates::pods::check,
    selectable: Selectable::of(FIELDS, true),
    ..Strategy::DEFAULT
};

const FIELDS: &[&str] = &[
    "spec.host",
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.nominatedNodeName",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];

fn complete_new(pod: &mut Value) {
    creation::assign("", "Pod", pod);
}

/// Restores what a client may omit, and completes the tolerations.
fn complete_changed(_subresource: Option<&str>, current: &Value, pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    for field in ["priority", "preemptionPolicy"] {
        if let Some(value) = current.pointer(&format!("/spec/{field}")) {
            spec.entry(field).or_insert_with(|| value.clone());
        }
    }
    creation::raise_grace_period(spec);
    creation::add_tolerations(spec);
}

fn check_spec(pod: &Value, errors: &mut Vec<FieldError>) {
    pods::check(field(pod, "spec"), "spec", pods::Origin::Pod, errors);
}
