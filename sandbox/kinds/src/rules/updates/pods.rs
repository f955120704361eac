//! Changes of pods.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::{Map, Value, json};

use super::{Change, field, items, text};

const FROZEN: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks the change of a pod: few fields of its specification are mutable, and some of those only
/// in one direction.
pub(crate) fn check(change: &mut Change<'_>) {
    let (new, old) = (field(change.new, "spec"), field(change.old, "spec"));
    for list in ["containers", "initContainers"] {
        if items(new, list).len() != items(old, list).len() {
            let why = "pod updates may not add or remove containers";
            let error = FieldError::forbidden(format!("spec.{list}"), why);
            change.errors.push(error);
            return;
        }
    }
    if let Some(error) = deadline(new, old) {
        change.errors.push(error);
        if !field(new, "activeDeadlineSeconds").is_null() {
            return;
        }
    }
    change.errors.extend(tolerations(new, old));
    gates(new, old, &mut change.errors);
    let mut rest = mutable_as_before(new, old);
    if !items(old, "schedulingGates").is_empty() {
        gated(&mut rest, old, &mut change.errors);
    }
    if Value::Object(rest) != *old {
        change.errors.push(FieldError::forbidden("spec", FROZEN));
    }
}

/// A deadline can be set, and shortened.
fn deadline(new: &Value, old: &Value) -> Option<FieldError> {
    let name = "activeDeadlineSeconds";
    let (is, was) = (field(new, name), field(old, name));
    let why = match (is.as_i64(), was.as_i64()) {
        (Some(is), Some(was)) if was < is => "must be less than or equal to previous value",
        (None, Some(_)) => "must not update from a positive integer to nil value",
        _ => return None,
    };
    let at = format!("spec.{name}");
    Some(FieldError::invalid(at, is, why))
}

/// Tolerations can be added, and their time can be changed.
fn tolerations(new: &Value, old: &Value) -> Option<FieldError> {
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(toleration) = toleration.as_object_mut() {
            toleration.remove("tolerationSeconds");
        }
        toleration
    };
    let kept: Vec<Value> = items(new, "tolerations").iter().map(timeless).collect();
    let lost = items(old, "tolerations")
        .iter()
        .any(|toleration| !kept.contains(&timeless(toleration)));
    let why = "existing toleration can not be modified except its tolerationSeconds";
    lost.then(|| FieldError::forbidden("spec.tolerations", why))
}

/// Scheduling gates can be removed.
fn gates(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let known = items(old, "schedulingGates");
    for (at, gate) in items(new, "schedulingGates").iter().enumerate() {
        if !known.contains(gate) {
            let name = text(gate, "name");
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            let at = format!("spec.schedulingGates[{at}].name");
            errors.push(FieldError::forbidden(at, &why));
        }
    }
}

/// Returns the new specification with the old values of mutable fields.
fn mutable_as_before(new: &Value, old: &Value) -> Map<String, Value> {
    let mut rest = new.as_object().cloned().unwrap_or_default();
    for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        restore(&mut rest, old, name);
    }
    for list in ["containers", "initContainers"] {
        let containers = rest.get_mut(list).and_then(Value::as_array_mut);
        let before = items(old, list);
        for (container, before) in containers.into_iter().flatten().zip(before) {
            if let Some(container) = container.as_object_mut() {
                restore(container, before, "image");
            }
        }
    }
    let period = "terminationGracePeriodSeconds";
    if field(old, period).as_i64().is_some_and(i64::is_negative)
        && rest.get(period) == Some(&json!(1))
    {
        restore(&mut rest, old, period);
    }
    rest
}

/// Checks and restores what can be changed before a pod is scheduled: a gated pod can get more
/// restrictions to nodes.
fn gated(rest: &mut Map<String, Value>, old: &Value, errors: &mut Vec<FieldError>) {
    let selector = rest.get("nodeSelector").cloned().unwrap_or_default();
    let before = field(old, "nodeSelector").as_object();
    let lost = before
        .into_iter()
        .flatten()
        .any(|(key, value)| selector.get(key) != Some(value));
    if lost {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(FieldError::invalid("spec.nodeSelector", &selector, why));
    }
    restore(rest, old, "nodeSelector");
    let is = rest.get("affinity").cloned().unwrap_or_default();
    let was = field(old, "affinity");
    affinity(
        field(&is, "nodeAffinity"),
        field(was, "nodeAffinity"),
        errors,
    );
    let mut is = is.as_object().cloned().unwrap_or_default();
    restore(&mut is, was, "nodeAffinity");
    if is.is_empty() && was.is_null() {
        rest.remove("affinity");
    } else {
        rest.insert("affinity".to_owned(), is.into());
    }
}

/// Required terms of a node affinity can get more requirements.
fn affinity(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let path = format!("spec.affinity.nodeAffinity.{required}.nodeSelectorTerms");
    let terms = |affinity| items(field(affinity, required), "nodeSelectorTerms");
    let (is, was) = (terms(new), terms(old));
    if was.is_empty() {
        return;
    }
    if is.len() != was.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let shown = if is.is_empty() {
            Value::Null
        } else {
            json!(is)
        };
        errors.push(FieldError::invalid(path, &shown, why));
        return;
    }
    for (at, (is, was)) in is.iter().zip(was).enumerate() {
        let lists = ["matchExpressions", "matchFields"];
        let added = lists
            .iter()
            .all(|list| items(is, list).starts_with(items(was, list)));
        let was_empty = lists.iter().all(|list| items(was, list).is_empty());
        if !added || (was_empty && is != was) {
            let why = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(format!("{path}[{at}]"), is, why));
        }
    }
}

fn restore(map: &mut Map<String, Value>, old: &Value, name: &str) {
    match old.get(name) {
        Some(value) => map.insert(name.to_owned(), value.clone()),
        None => map.remove(name),
    };
}
