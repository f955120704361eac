//! PodTemplates.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::Value;

use super::{Generation, Strategy};
use crate::rules::{field, pods};

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    generation: Generation::Spec,
    deletion_returns_object: true,
    check_spec,
    ..Strategy::DEFAULT
};

fn check_spec(object: &Value, errors: &mut Vec<FieldError>) {
    pods::check_template(field(object, "template"), "template", errors);
}
