//! Conditions of CRDs: their names must not be used by other CRDs of the group.

use serde_json::{Map, Value, json};

use super::naming::Naming;
use crate::field_error::FieldError;
use crate::schema::{Source, structural};

/// Computes the status of a CRD after a write to it or to another one of its group.
///
/// `crd` contains its previous status; `others` are the CRDs of its group; `now` is the time in the
/// format of the API. Accepted names stay accepted, so conflicts are decided in the order of
/// creation.
pub fn conditions<'a>(crd: &'a Value, others: impl Iterator<Item = &'a Value>, now: &str) -> Value {
    let mut status = crd
        .get("status")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_else(Map::new);
    let mut conditions = status
        .get("conditions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();

    if let Some(violations) = schema_violations(crd) {
        let name = "NonStructuralSchema";
        set(&mut conditions, name, true, "Violations", &violations, now);
    }
    if let Some((value, reason, message)) = super::approval::condition(crd) {
        let name = "KubernetesAPIApprovalPolicyConformant";
        set(&mut conditions, name, value, reason, &message, now);
    }
    // Settled names are not evaluated again, even if other CRDs request them.
    let mut accepted = None;
    if !super::has_its_names(crd) {
        let names = Naming::of(crd, others);
        accepted = Some(names.accepted);
        let (value, reason, message) = match &names.conflict {
            None => (true, "NoConflicts", "no conflicts found"),
            Some((reason, message)) => (false, *reason, message.as_str()),
        };
        let name = "NamesAccepted";
        set(&mut conditions, name, value, reason, message, now);
    }
    establish(&mut conditions, accepted.is_some(), now);
    let deletion = crd.pointer("/metadata/deletionTimestamp");
    if deletion.is_some_and(|time| !time.is_null()) {
        let reason = "InstanceDeletionInProgress";
        let message = "CustomResource deletion is in progress";
        set(&mut conditions, "Terminating", true, reason, message, now);
    }

    if let Some(accepted) = accepted {
        status.insert("acceptedNames".to_owned(), accepted);
    }
    status.insert("conditions".to_owned(), conditions.into());
    status.entry("storedVersions").or_insert_with(|| json!([]));
    Value::Object(status)
}

/// Sets the condition `Established` after the names were judged. A CRD whose names were accepted
/// before stays established under them.
fn establish(conditions: &mut Vec<Value>, judged: bool, now: &str) {
    let name = "Established";
    if is_true(conditions, "NamesAccepted") {
        if !is_true(conditions, name) {
            let reason = "InitialNamesAccepted";
            let message = "the initial names have been accepted";
            set(conditions, name, true, reason, message, now);
        }
    } else if judged && !conditions.iter().any(|it| is_of_type(it, name)) {
        let message = "not all names are accepted";
        set(conditions, name, false, "NotAccepted", message, now);
    }
}

/// Returns `true` if the kind of a CRD is served.
pub fn is_established(crd: &Value) -> bool {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|conditions| is_true(conditions, "Established"))
}

/// Returns `true` if the objects of a CRD are being deleted.
pub fn is_terminating(crd: &Value) -> bool {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|conditions| is_true(conditions, "Terminating"))
}

fn is_of_type(condition: &Value, name: &str) -> bool {
    condition.get("type").is_some_and(|found| found == name)
}

fn is_true(conditions: &[Value], name: &str) -> bool {
    let is_true = |condition: &Value| {
        condition
            .get("status")
            .is_some_and(|status| status == "True")
    };
    conditions
        .iter()
        .any(|condition| is_of_type(condition, name) && is_true(condition))
}

/// Sets a condition. The transition time changes only with the status.
fn set(
    conditions: &mut Vec<Value>,
    name: &str,
    value: bool,
    reason: &str,
    message: &str,
    now: &str,
) {
    let status = if value { "True" } else { "False" };
    let mut condition = json!({
        "type": name, "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
    });
    match conditions
        .iter_mut()
        .find(|condition| is_of_type(condition, name))
    {
        None => conditions.push(condition),
        Some(existing) => {
            let same = existing.get("status").is_some_and(|old| old == status);
            if let Some(time) = existing.get("lastTransitionTime").filter(|_| same) {
                condition["lastTransitionTime"] = time.clone();
            }
            *existing = condition;
        }
    }
}

fn schema_violations(crd: &Value) -> Option<String> {
    let mut texts = Vec::new();
    for (index, version) in super::folding::versions(crd).iter().enumerate() {
        let Some(schema) = super::folding::schema(version) else {
            continue;
        };
        let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
        texts.extend(
            structural(Source::new(schema), &path)
                .iter()
                .map(FieldError::text),
        );
    }
    joined(texts)
}

/// Joins several errors as the server does.
pub(super) fn joined(mut texts: Vec<String>) -> Option<String> {
    match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ => Some(format!("[{}]", texts.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";
    const LATER: &str = "2026-01-02T03:04:06Z";

    fn crd(plural: &str, kind: &str, short: &[&str]) -> Value {
        let mut crd = json!({
            "metadata": {"name": format!("{plural}.g.io")},
            "spec": {"group": "g.io", "names": {"plural": plural, "kind": kind, "shortNames": short}},
        });
        super::super::default(&mut crd);
        super::super::prepare_create(&mut crd);
        crd
    }

    fn with_status(mut crd: Value, others: &[Value], now: &str) -> Value {
        crd["status"] = conditions(&crd, others.iter(), now);
        crd
    }

    fn states(crd: &Value) -> Vec<(&str, &str, &str, &str)> {
        let conditions = crd["status"]["conditions"].as_array().unwrap();
        conditions
            .iter()
            .map(|condition| {
                let text = |key: &str| condition[key].as_str().unwrap();
                (
                    text("type"),
                    text("status"),
                    text("reason"),
                    text("message"),
                )
            })
            .collect()
    }

    #[test]
    fn free_names_are_accepted() {
        let crd = with_status(crd("things", "Thing", &["th"]), &[], NOW);
        assert_eq!(
            crd["status"],
            json!({
                "acceptedNames": {
                    "plural": "things", "singular": "thing", "shortNames": ["th"],
                    "kind": "Thing", "listKind": "ThingList",
                },
                "conditions": [
                    {
                        "type": "NamesAccepted", "status": "True", "lastTransitionTime": NOW,
                        "reason": "NoConflicts", "message": "no conflicts found",
                    },
                    {
                        "type": "Established", "status": "True", "lastTransitionTime": NOW,
                        "reason": "InitialNamesAccepted", "message": "the initial names have been accepted",
                    },
                ],
                "storedVersions": [],
            })
        );
        assert!(is_established(&crd));
        assert_eq!(with_status(crd.clone(), &[], LATER), crd);
    }

    #[test]
    fn conflicting_names_are_accepted_after_their_owner_is_deleted() {
        let owner = with_status(crd("things", "Thing", &["th"]), &[], NOW);
        let others = [owner];

        let same_kind = with_status(crd("stuffs", "Thing", &[]), &others, NOW);
        assert_eq!(
            states(&same_kind),
            [
                (
                    "NamesAccepted",
                    "False",
                    "ListKindConflict",
                    "\"ThingList\" is already in use"
                ),
                (
                    "Established",
                    "False",
                    "NotAccepted",
                    "not all names are accepted"
                ),
            ]
        );
        assert_eq!(
            same_kind["status"]["acceptedNames"],
            json!({"plural": "stuffs", "kind": ""})
        );
        assert!(!is_established(&same_kind));

        let same_short = with_status(crd("others", "Other", &["th", "things"]), &others, NOW);
        assert_eq!(
            states(&same_short)[0],
            (
                "NamesAccepted",
                "False",
                "ShortNamesConflict",
                "[\"th\" is already in use, \"things\" is already in use]",
            )
        );
        assert_eq!(
            same_short["status"]["acceptedNames"],
            json!({"plural": "others", "singular": "other", "kind": "Other", "listKind": "OtherList"})
        );

        let freed = with_status(same_kind, &[], LATER);
        assert!(is_established(&freed));
        assert_eq!(
            freed["status"]["conditions"][1]["lastTransitionTime"],
            LATER
        );
    }

    #[test]
    fn names_of_other_groups_do_not_conflict() {
        let mut foreign = with_status(crd("things", "Thing", &[]), &[], NOW);
        foreign["spec"]["group"] = "other.io".into();
        assert!(is_established(&with_status(
            crd("stuffs", "Thing", &[]),
            &[foreign],
            NOW
        )));
    }

    #[test]
    fn deletion_sets_the_terminating_condition() {
        let mut crd = with_status(crd("things", "Thing", &[]), &[], NOW);
        crd["metadata"]["deletionTimestamp"] = NOW.into();
        let crd = with_status(crd, &[], NOW);
        assert!(is_terminating(&crd) && is_established(&crd));
        assert_eq!(states(&crd)[2].2, "InstanceDeletionInProgress");
    }
}
