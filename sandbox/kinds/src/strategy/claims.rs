//! PersistentVolumeClaims.

use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::Strategy;
use crate::rules::updates;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    deletion_returns_object: true,
    complete_new,
    check_change: updates::claims::check,
    ..Strategy::DEFAULT
};

fn complete_new(claim: &mut Value) {
    meta::entry(claim, "status").insert("phase".to_owned(), json!("Pending"));
}
