//! The objects become those of the reference, and nothing is left behind.

use std::sync::Arc;

use serde_json::Value;

use super::{Complaint, Evidence, Oracle};
use crate::deviation::{Deviation, Interference};
use crate::journal::{Actor, Happening};
use crate::mask::Difference;
use crate::object::INTERFERENCE_LABEL;
use crate::point::Point;
use crate::record::{End, Reference};

pub(super) fn judge(evidence: Evidence<'_>) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    if let End::NotConverged { step, differences } = &evidence.record.end {
        let (left, wrong): (Vec<_>, Vec<_>) = differences
            .iter()
            .cloned()
            .partition(|difference| is_left(difference, *step, evidence.reference));
        if !left.is_empty() {
            let summary = format!("{} left behind after step {step}", objects(&left));
            complaints.push(Complaint {
                differences: left,
                ..Complaint::new(Oracle::Released, *step, summary)
            });
        }
        if !wrong.is_empty() {
            let like = match (evidence.deviation, step) {
                (Some(Deviation::Respec { .. }), 2) => {
                    "as after a creation with the same specification".to_owned()
                }
                (Some(Deviation::Respec { .. }), _) => "as before the change".to_owned(),
                _ => format!("as in the undisturbed run after step {step}"),
            };
            let summary = format!("{} not {like}", objects(&wrong));
            complaints.push(Complaint {
                differences: wrong,
                ..Complaint::new(Oracle::Converged, *step, summary)
            });
        }
    }
    if let End::StepFailed { step, why } = &evidence.record.end {
        let summary = format!("step {step} failed: {why}");
        complaints.push(Complaint::new(Oracle::Converged, *step, summary));
    }
    complaints.extend(lost_update(evidence));
    complaints.extend(lost_change(evidence));
    complaints.extend(never_gone(evidence));
    complaints
}

/// Finds an object whose deletion was asked for in an undisturbed run, and that does not go: its finalizers
/// stay. Other runs are compared with that one.
fn never_gone(evidence: Evidence<'_>) -> Option<Complaint> {
    if evidence.deviation.is_some() || evidence.record.end != End::Complete {
        return None;
    }
    let objects = &evidence.record.last.objects;
    let (key, finalizers) = objects.iter().find_map(|(key, object)| {
        object.pointer("/metadata/deletionTimestamp")?;
        let finalizers = object.pointer("/metadata/finalizers")?.as_array()?;
        let names: Vec<&str> = finalizers.iter().filter_map(Value::as_str).collect();
        (!names.is_empty()).then(|| (key, names.join(", ")))
    })?;
    let step = evidence.record.states.len();
    let summary = format!("{key} was deleted, but never goes: it has the finalizer {finalizers}");
    Some(Complaint::new(Oracle::Released, step, summary))
}

/// Returns the point at which another client has made this change to an object of the user.
fn interfered(evidence: Evidence<'_>, wanted: Interference) -> Option<&Point> {
    match evidence.deviation {
        Some(Deviation::Interfere { point, change }) if *change == wanted => {
            let is_of_user = evidence.reference.of_user.contains(&point.site.object);
            (evidence.record.is_reached && is_of_user).then_some(point)
        }
        _ => None,
    }
}

/// Checks that the operator did not undo a change of the specification of the user's object.
fn lost_change(evidence: Evidence<'_>) -> Option<Complaint> {
    let point = interfered(evidence, Interference::Spec)?;
    let key = &point.site.object;
    let entries = evidence.record.journal.entries.iter();
    let entries = entries.skip_while(|entry| !matches!(entry.what, Happening::Deviation(_)));
    let mut commits = entries.filter_map(|entry| match &entry.what {
        Happening::Commit(commit) if commit.key == *key => Some(commit),
        _ => None,
    });
    let change = commits.find(|commit| commit.actor == Actor::User)?;
    let spec = |object: &Option<Arc<Value>>| object.as_deref()?.get("spec").cloned();
    let (before, after) = (spec(&change.before)?, spec(&change.after)?);
    let is_lost = commits
        .take_while(|commit| commit.actor.is_operator())
        .any(|commit| spec(&commit.after).is_some_and(|spec| spec == before && spec != after));
    let summary = format!("the operator undid a change of another client to {key}");
    is_lost.then(|| Complaint::new(Oracle::Converged, point.step, summary))
}

/// Returns `true` for an object that the reference deletes, and that still exists.
fn is_left(difference: &Difference, step: usize, reference: &Reference) -> bool {
    match difference {
        Difference::Unexpected {
            is_terminating: true,
            ..
        } => true,
        Difference::Unexpected { key, .. } => (1..step).any(|step| {
            reference
                .view(step)
                .is_some_and(|view| view.contains_key(key))
        }),
        Difference::Missing { .. } | Difference::Changed { .. } => false,
    }
}

fn objects(differences: &[Difference]) -> String {
    match differences {
        [one] => format!("{} is", one.key()),
        several => format!("{} objects are", several.len()),
    }
}

/// Checks that the label of another client was not overwritten.
fn lost_update(evidence: Evidence<'_>) -> Option<Complaint> {
    let point = interfered(evidence, Interference::Label)?;
    let key = &point.site.object;
    let state = evidence.record.states.get(point.step.checked_sub(1)?)?;
    let object = state.as_ref()?.objects.get(key)?;
    let labels = object.pointer("/metadata/labels");
    let label = labels.and_then(|labels| labels.get(INTERFERENCE_LABEL));
    if label.and_then(Value::as_str).is_some() {
        return None;
    }
    let summary = format!("the operator overwrote a label that another client added to {key}");
    Some(Complaint::new(Oracle::Converged, point.step, summary))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::journal::{Change, Commit, Entry};
    use crate::object::ObjectKey;
    use crate::point::{Counter, Site};
    use crate::record::Record;

    #[test]
    fn objects_that_the_reference_deletes_are_left_behind() {
        let pod = ObjectKey::new("", "pods", Some("default"), "a");
        let other = ObjectKey::new("", "pods", Some("default"), "b");
        let reference = Reference {
            views: vec![
                Some(BTreeMap::from([(pod.clone(), vec![json!({})])])),
                Some(BTreeMap::new()),
            ],
            ..Reference::default()
        };
        let unexpected = |key: &ObjectKey| Difference::Unexpected {
            key: key.clone(),
            is_terminating: false,
        };
        let record = Record {
            end: End::NotConverged {
                step: 2,
                differences: vec![unexpected(&pod), unexpected(&other)],
            },
            ..Record::default()
        };
        let complaints = judge(Evidence {
            reference: &reference,
            record: &record,
            deviation: None,
            settle: Duration::ZERO,
        });
        let oracles: Vec<Oracle> = complaints.iter().map(|one| one.oracle).collect();
        assert_eq!(oracles, [Oracle::Released, Oracle::Converged]);
        assert_eq!(complaints[0].summary, "pods/a is left behind after step 2");
    }

    #[test]
    fn object_with_a_finalizer_that_stays_is_reported_without_a_deviation() {
        let key = ObjectKey::new("", "pods", Some("default"), "a");
        let judged = |metadata: Value| {
            let mut record = Record::default();
            let object = Arc::new(json!({ "metadata": metadata }));
            record.last.objects.insert(key.clone(), object);
            judge(Evidence {
                reference: &Reference::default(),
                record: &record,
                deviation: None,
                settle: Duration::ZERO,
            })
        };
        let found = judged(json!({"deletionTimestamp": "now", "finalizers": ["a/b"]}));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].oracle, Oracle::Released);
        assert!(judged(json!({"finalizers": ["a/b"]})).is_empty());
        assert!(judged(json!({"deletionTimestamp": "now"})).is_empty());
    }

    #[test]
    fn changes_of_the_user_that_are_undone_are_reported() {
        let key = ObjectKey::new("example.com", "shops", Some("default"), "a");
        let of = |size: i64| Some(Arc::new(json!({"spec": {"size": size}})));
        let commit = |actor: Actor, before: i64, after: i64| {
            Happening::Commit(Commit {
                revision: 1,
                change: Change::Changed,
                key: key.clone(),
                actor,
                before: of(before),
                after: of(after),
            })
        };
        let deviation = Deviation::Interfere {
            point: Counter::default().next(
                1,
                Site {
                    verb: "update".to_owned(),
                    object: key.clone(),
                    subresource: None,
                },
            ),
            change: Interference::Spec,
        };
        let judged = |after: i64| {
            let mut record = Record {
                is_reached: true,
                ..Record::default()
            };
            for what in [
                Happening::Deviation("it begins".to_owned()),
                commit(Actor::User, 1, 2),
                commit(Actor::Operator(1), 2, after),
                commit(Actor::User, 2, 1),
            ] {
                record.journal.push(Entry {
                    at: Duration::ZERO,
                    step: 1,
                    what,
                });
            }
            judge(Evidence {
                reference: &Reference {
                    of_user: [key.clone()].into(),
                    ..Reference::default()
                },
                record: &record,
                deviation: Some(&deviation),
                settle: Duration::ZERO,
            })
        };
        assert_eq!(judged(1).len(), 1);
        assert!(judged(2).is_empty());
    }
}
