//! StatefulSets.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::Value;

use super::{Generation, NameRule, Strategy};
use crate::rules::updates::Change;
use crate::rules::workloads;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    names: NameRule::Label,
    generation: Generation::Spec,
    check_spec,
    check_change,
    ..Strategy::DEFAULT
};

fn check_spec(object: &Value, errors: &mut Vec<FieldError>) {
    workloads::check("statefulsets", object, errors);
}

fn check_change(change: &mut Change<'_>) {
    change.freeze_spec(
        &[
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ],
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
    );
}
