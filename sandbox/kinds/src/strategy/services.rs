//! Services.

use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::{NameRule, Selectable, Strategy};
use crate::rules::{services, updates};

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    names: NameRule::Label,
    creates_on_update: true,
    deletion_returns_object: true,
    complete_new,
    check_spec: services::check,
    check_change: updates::service,
    selectable: Selectable::of(&["spec.clusterIP", "spec.type"], true),
    ..Strategy::DEFAULT
};

fn complete_new(service: &mut Value) {
    let status = meta::entry(service, "status");
    status.entry("loadBalancer").or_insert_with(|| json!({}));
}
