//! CustomResourceDefinitions.

use kopf_sandbox_schema::crd;
use serde_json::Value;

use super::{Generation, Strategy};

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    qualified_finalizers: false,
    generation: Generation::Spec,
    allows_unconditional_update: false,
    complete_new,
    complete_changed,
    ..Strategy::DEFAULT
};

fn complete_new(definition: &mut Value) {
    crd::default(definition);
    crd::prepare_create(definition);
}

fn complete_changed(_subresource: Option<&str>, current: &Value, definition: &mut Value) {
    crd::default(definition);
    crd::prepare_update(definition, current);
}
