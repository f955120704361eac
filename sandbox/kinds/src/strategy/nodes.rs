//! Nodes, which report their status when they register.

use kopf_sandbox_schema::typing::creation;
use serde_json::Value;

use super::{Selectable, Strategy};
use crate::rules::updates;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    drops_new_status: false,
    complete_new,
    check_change: updates::node,
    selectable: Selectable::of(&["spec.unschedulable"], false),
    ..Strategy::DEFAULT
};

fn complete_new(node: &mut Value) {
    creation::assign("", "Node", node);
}
