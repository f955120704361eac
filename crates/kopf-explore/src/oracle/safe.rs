//! Nothing is deleted that the reference keeps.

use std::collections::BTreeSet;

use super::{Complaint, Evidence, Oracle};
use crate::deviation::Family;
use crate::journal::Change;
use crate::object::ObjectKey;
use crate::record::begins_deletion;

/// Resources whose deletion loses data, even if the object is created again.
const PRECIOUS: [&str; 5] = [
    "customresourcedefinitions.apiextensions.k8s.io",
    "namespaces",
    "persistentvolumeclaims",
    "persistentvolumes",
    "statefulsets.apps",
];

/// A change of immutable fields of a StatefulSet needs a deletion; its claims survive that.
fn is_data(key: &ObjectKey) -> bool {
    key.resource != "statefulsets.apps" && PRECIOUS.contains(&key.resource.as_str())
}

/// Returns `true` if an object exists before and after a step of a variation.
fn is_kept(evidence: Evidence<'_>, step: usize, key: &ObjectKey) -> bool {
    let exists = |step: usize| {
        let index = step.checked_sub(1)?;
        let state = evidence.record.states.get(index)?.as_ref()?;
        Some(state.objects.contains_key(key))
    };
    let after = exists(step).unwrap_or_else(|| evidence.record.last.objects.contains_key(key));
    after && step >= 2 && exists(step - 1) == Some(true)
}

/// With `is_wrong`, the run has another problem, and every unknown deletion is worth mentioning.
pub(super) fn judge(evidence: Evidence<'_>, is_wrong: bool) -> Vec<Complaint> {
    let reference = evidence.reference;
    // What is deleted because of old data is lost, even if it is created again.
    let is_stale = evidence
        .deviation
        .is_some_and(|deviation| deviation.family() == Family::Stale);
    let mut seen: BTreeSet<ObjectKey> = BTreeSet::new();
    let mut complaints = Vec::new();
    for (step, commit) in evidence.record.journal.commits() {
        let is_deleted = commit.change == Change::Deleted || begins_deletion(commit);
        if !is_deleted || !commit.actor.is_operator() {
            continue;
        }
        let key = reference
            .mask
            .names()
            .pattern(&commit.key, commit.before.as_deref());
        if evidence.is_respec() {
            if is_data(&key) && is_kept(evidence, step, &commit.key) && seen.insert(key.clone()) {
                let summary = format!(
                    "the operator deleted {key} and created it again, although the change does not need it"
                );
                complaints.push(Complaint::new(Oracle::Safe, step, summary));
            }
            continue;
        }
        let is_precious = PRECIOUS.contains(&key.resource.as_str())
            || reference.of_user.contains(&key)
            || is_wrong
            || is_stale;
        if is_precious && !reference.deleted.contains(&key) && seen.insert(key.clone()) {
            let summary =
                format!("the operator deleted {key}, which the undisturbed run never does");
            complaints.push(Complaint::new(Oracle::Safe, step, summary));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::deviation::Deviation;
    use crate::journal::{Actor, Commit, Entry, Happening, Snapshot};
    use crate::object::FieldPath;
    use crate::record::{Record, Reference};
    use crate::scenario::Variation;

    fn judged(resource: &str, is_created_again: bool) -> Vec<Complaint> {
        let key = ObjectKey::new("", resource, Some("default"), "data");
        let object = Arc::new(json!({}));
        let with = Snapshot {
            objects: [(key.clone(), Arc::clone(&object))].into(),
            ..Snapshot::default()
        };
        let after = if is_created_again {
            with.clone()
        } else {
            Snapshot::default()
        };
        let mut record = Record {
            states: vec![Some(with), Some(after)],
            ..Record::default()
        };
        record.journal.push(Entry {
            at: Duration::ZERO,
            step: 2,
            what: Happening::Commit(Commit {
                revision: 1,
                change: Change::Deleted,
                key,
                actor: Actor::Operator(1),
                before: Some(object),
                after: None,
            }),
        });
        let deviation = Deviation::Respec {
            variation: Variation {
                path: FieldPath::parse("spec.size").unwrap(),
                value: None,
            },
        };
        let evidence = Evidence {
            reference: &Reference::default(),
            record: &record,
            deviation: Some(&deviation),
            settle: Duration::ZERO,
        };
        judge(evidence, false)
    }

    #[test]
    fn claims_survive_changes_that_keep_them() {
        assert_eq!(judged("persistentvolumeclaims", true).len(), 1);
        assert!(
            judged("persistentvolumeclaims", false).is_empty(),
            "the change removes it"
        );
        assert!(judged("configmaps", true).is_empty(), "nothing is lost");
    }
}
