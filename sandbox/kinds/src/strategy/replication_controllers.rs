//! ReplicationControllers.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::Value;

use super::{Generation, Propagation, Selectable, Strategy};
use crate::rules::workloads;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    generation: Generation::Spec,
    default_propagation: Some(Propagation::Orphan),
    deletion_returns_object: true,
    check_spec,
    selectable: Selectable::of(&["status.replicas"], true),
    ..Strategy::DEFAULT
};

fn check_spec(object: &Value, errors: &mut Vec<FieldError>) {
    workloads::check("replicationcontrollers", object, errors);
}
