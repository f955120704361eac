//! Events of the core group.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::Value;

use super::{NameRule, Selectable, Strategy};
use crate::rules::data;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    names: NameRule::PathSegment,
    qualified_finalizers: false,
    creates_on_update: true,
    default_propagation: None,
    check,
    selectable: Selectable::of(FIELDS, true),
    ..Strategy::DEFAULT
};

const FIELDS: &[&str] = &[
    "involvedObject.apiVersion",
    "involvedObject.fieldPath",
    "involvedObject.kind",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.resourceVersion",
    "involvedObject.uid",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

fn check(event: &Value, errors: &mut Vec<FieldError>) {
    data::event(event, "involvedObject", errors);
}
