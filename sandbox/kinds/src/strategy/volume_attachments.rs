//! VolumeAttachments.

use super::Strategy;
use crate::rules::updates::Change;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    status_keeps_metadata: true,
    deletion_returns_object: true,
    check_change,
    ..Strategy::DEFAULT
};

fn check_change(change: &mut Change<'_>) {
    change.keep("/spec", "spec");
}
