//! Accessors for fields of JSON objects.

use kopf_sandbox_schema::object::meta;
use serde_json::{Map, Value, json};

/// Returns a string, or an empty one.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns a whole number, or a default.
pub(super) fn number(object: &Value, pointer: &str, default: i64) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or(default)
}

/// Returns a list, or an empty one.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Returns `true` if a field is `true`.
pub(super) fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer) == Some(&Value::Bool(true))
}

/// Returns the length of a list as a number in a status.
pub(super) fn count<T>(items: impl IntoIterator<Item = T>) -> i64 {
    i64::try_from(items.into_iter().count()).unwrap_or(i64::MAX)
}

/// Returns a condition of the status.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Returns `true` if a condition of the status is `True`.
pub(super) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

/// A condition to set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition<'a> {
    pub(super) kind: &'a str,
    pub(super) holds: bool,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

impl Condition<'_> {
    /// Sets the condition in a list of conditions. The transition time is kept if the status is
    /// unchanged.
    pub(super) fn set(&self, conditions: &mut Vec<Value>, now: &str) {
        let status = if self.holds { "True" } else { "False" };
        let mut new = json!({
            "type": self.kind, "status": status, "lastTransitionTime": now,
        });
        for (field, value) in [("reason", self.reason), ("message", self.message)] {
            if !value.is_empty() {
                new[field] = json!(value);
            }
        }
        let known = conditions
            .iter_mut()
            .find(|condition| condition["type"] == self.kind);
        match known {
            Some(known) => {
                if known["status"] == status {
                    new["lastTransitionTime"] = known["lastTransitionTime"].clone();
                }
                for field in ["lastProbeTime", "lastUpdateTime"] {
                    if let Some(value) = known.get(field) {
                        new[field] = value.clone();
                    }
                }
                *known = new;
            }
            None => conditions.push(new),
        }
    }
}

/// Returns the conditions of the status, for changes.
pub(super) fn conditions(object: &Value) -> Vec<Value> {
    list(object, "/status/conditions").to_vec()
}

/// Returns counts without zeros, which servers omit.
pub(super) fn counts<const N: usize>(counts: [(&str, i64); N]) -> Map<String, Value> {
    let present = counts.into_iter().filter(|(_, count)| *count != 0);
    present
        .map(|(name, count)| (name.to_owned(), json!(count)))
        .collect()
}

/// Returns a reference to the controller of an object.
pub(super) fn owner_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta::name(owner),
        "uid": meta::uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Returns `true` if a pod neither has ended nor is terminating.
pub(super) fn is_active(pod: &Value) -> bool {
    !meta::is_terminating(pod) && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Resolves a number, or a percentage such as `25%` of a total.
pub(super) fn portion(value: Option<&Value>, total: i64, rounding: Rounding) -> i64 {
    match value {
        Some(Value::String(percent)) => {
            let percent: i64 = percent.trim_end_matches('%').parse().unwrap_or_default();
            let hundredfold = total.saturating_mul(percent);
            match rounding {
                Rounding::Up => hundredfold.saturating_add(99).div_euclid(100),
                Rounding::Down => hundredfold.div_euclid(100),
            }
        }
        Some(value) => value.as_i64().unwrap_or_default(),
        None => 0,
    }
}

/// The direction in which percentages are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    Up,
    Down,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_in_the_given_direction() {
        let quarter = json!("25%");
        assert_eq!(portion(Some(&quarter), 3, Rounding::Up), 1);
        assert_eq!(portion(Some(&quarter), 3, Rounding::Down), 0);
        assert_eq!(portion(Some(&json!(2)), 3, Rounding::Down), 2);
        assert_eq!(portion(None, 3, Rounding::Up), 0);
    }

    #[test]
    fn conditions_keep_their_transition_time_until_they_change() {
        let mut conditions = Vec::new();
        let mut ready = Condition {
            kind: "Ready",
            holds: true,
            reason: "",
            message: "",
        };
        ready.set(&mut conditions, "first");
        ready.reason = "Other";
        ready.set(&mut conditions, "second");
        assert_eq!(conditions[0]["lastTransitionTime"], "first");
        ready.holds = false;
        ready.set(&mut conditions, "third");
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0]["lastTransitionTime"], "third");
    }
}
