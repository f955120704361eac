//! PersistentVolumes.

use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::Strategy;
use crate::rules::updates;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    deletion_returns_object: true,
    complete_new,
    check_change: updates::volumes::check,
    ..Strategy::DEFAULT
};

fn complete_new(volume: &mut Value) {
    meta::entry(volume, "status").insert("phase".to_owned(), json!("Pending"));
}
