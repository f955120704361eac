//! EndpointSlices.

use super::{Generation, Strategy};
use crate::rules::updates::Change;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    generation: Generation::SpecAndLabels,
    allows_unconditional_update: false,
    check_change,
    ..Strategy::DEFAULT
};

fn check_change(change: &mut Change<'_>) {
    change.keep("/addressType", "addressType");
}
