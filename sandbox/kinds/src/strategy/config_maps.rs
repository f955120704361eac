//! ConfigMaps.

use super::Strategy;
use crate::rules::updates::Change;
use crate::rules::{data, updates};

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    check: data::config_map,
    check_change,
    ..Strategy::DEFAULT
};

fn check_change(change: &mut Change<'_>) {
    updates::sealed(change, &["data", "binaryData"]);
}
