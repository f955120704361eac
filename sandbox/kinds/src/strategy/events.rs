//! Events of their own group.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::Value;

use super::{Selectable, Strategy};
use crate::rules::{data, updates};

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    creates_on_update: true,
    default_propagation: None,
    check,
    check_change: updates::event,
    selectable: Selectable::of(FIELDS, true),
    ..Strategy::DEFAULT
};

const FIELDS: &[&str] = &[
    "reason",
    "regarding.apiVersion",
    "regarding.fieldPath",
    "regarding.kind",
    "regarding.name",
    "regarding.namespace",
    "regarding.resourceVersion",
    "regarding.uid",
    "reportingController",
    "type",
];

fn check(event: &Value, errors: &mut Vec<FieldError>) {
    data::event(event, "regarding", errors);
}
