//! Secrets.

use super::{Selectable, Strategy};
use crate::rules::updates::Change;
use crate::rules::{data, updates};

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    check: data::secret,
    check_change,
    selectable: Selectable::of(&["type"], true),
    ..Strategy::DEFAULT
};

fn check_change(change: &mut Change<'_>) {
    change.keep("/type", "type");
    updates::sealed(change, &["data"]);
}
