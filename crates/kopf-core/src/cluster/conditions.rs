//! Status conditions: `status.conditions`, as the Kubernetes API conventions define them.
//!
//! A condition keeps its place in the list, conditions of other types are kept, and
//! `lastTransitionTime` changes only together with `status`. Nothing is sent from here:
//! [`Change::apply`] edits a body, and the patch of the cycle sends the difference.

use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Limits of the API conventions (`metav1.Condition`).
const TYPE_LIMIT: usize = 316;
const REASON_LIMIT: usize = 1024;
const MESSAGE_LIMIT: usize = 32_768;

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It cannot be determined whether the condition holds.
    Unknown,
}

impl ConditionStatus {
    /// Returns the status as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl From<Option<bool>> for ConditionStatus {
    fn from(holds: Option<bool>) -> Self {
        holds.map_or(Self::Unknown, Self::from)
    }
}

impl std::str::FromStr for ConditionStatus {
    type Err = InvalidCondition;

    fn from_str(text: &str) -> Result<Self, InvalidCondition> {
        match text {
            "True" => Ok(Self::True),
            "False" => Ok(Self::False),
            "Unknown" => Ok(Self::Unknown),
            other => Err(InvalidCondition::new(
                "status",
                other,
                "must be True, False or Unknown",
            )),
        }
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A condition that API servers would reject.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {field} of a condition {value:?}: {expected}")]
pub struct InvalidCondition {
    field: &'static str,
    value: String,
    expected: String,
}

impl InvalidCondition {
    fn new(field: &'static str, value: &str, expected: impl Into<String>) -> Self {
        Self {
            field,
            value: value.chars().take(100).collect(),
            expected: expected.into(),
        }
    }
}

/// A change of `status.conditions`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)] // Handlers use `Conditions` of the frontends.
pub enum Change {
    /// Sets a condition, and adds it at the end if it is absent.
    Set(Condition),
    /// Removes the condition of this type.
    Remove {
        /// The type of the condition.
        type_: String,
    },
}

/// One condition to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    type_: String,
    status: ConditionStatus,
    reason: String,
    message: String,
    observed_generation: Option<i64>,
    now: Timestamp,
}

impl Condition {
    /// Creates a condition that is observed now.
    ///
    /// # Errors
    /// If the type, the reason or the message violates the limits of the API conventions: types are
    /// names such as `Ready` or `example.com/Ready`, reasons are words such as `MinimumReplicas`.
    pub fn new(
        type_: impl Into<String>,
        status: ConditionStatus,
        reason: impl Into<String>,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Result<Self, InvalidCondition> {
        let condition = Self {
            type_: type_.into(),
            status,
            reason: reason.into(),
            message: message.into(),
            observed_generation: None,
            now,
        };
        condition.validate()?;
        Ok(condition)
    }

    /// Sets the generation of the object that the condition was derived from.
    #[must_use]
    pub fn observed(self, generation: Option<i64>) -> Self {
        Self {
            observed_generation: generation,
            ..self
        }
    }

    fn validate(&self) -> Result<(), InvalidCondition> {
        if !is_type(&self.type_) {
            let expected = format!(
                "must be a name like Ready or example.com/Ready of at most {TYPE_LIMIT} characters"
            );
            return Err(InvalidCondition::new("type", &self.type_, expected));
        }
        if !is_reason(&self.reason) {
            let expected = format!(
                "must be a word of letters, digits, '_', ',', ':' that begins with a letter, of \
                 at most {REASON_LIMIT} characters"
            );
            return Err(InvalidCondition::new("reason", &self.reason, expected));
        }
        if self.message.chars().count() > MESSAGE_LIMIT {
            let expected = format!("must be of at most {MESSAGE_LIMIT} characters");
            return Err(InvalidCondition::new("message", &self.message, expected));
        }
        Ok(())
    }

    fn write_to(&self, entry: &mut Map<String, Value>) {
        let text = |text: &str| Value::String(text.to_owned());
        let is_transition =
            entry.get("status").and_then(Value::as_str) != Some(self.status.as_str());
        if is_transition
            || !entry
                .get("lastTransitionTime")
                .is_some_and(Value::is_string)
        {
            // The API has whole seconds here.
            let now = self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            entry.insert("lastTransitionTime".to_owned(), Value::String(now));
        }
        entry.insert("type".to_owned(), text(&self.type_));
        entry.insert("status".to_owned(), text(self.status.as_str()));
        entry.insert("reason".to_owned(), text(&self.reason));
        entry.insert("message".to_owned(), text(&self.message));
        match self.observed_generation {
            Some(generation) => entry.insert("observedGeneration".to_owned(), generation.into()),
            None => entry.remove("observedGeneration"),
        };
    }
}

/// Applies changes to the list of conditions of a body, in order. Of several changes of one type,
/// only the last one counts, so that intermediate states are no transitions.
///
/// ```
/// use kopf_core::conditions::{Change, Condition, ConditionStatus, apply};
/// use serde_json::json;
///
/// let now = "2026-01-02T03:04:05Z".parse()?;
/// let ready = Condition::new("Ready", ConditionStatus::True, "Deployed", "3 of 3", now)?;
/// let mut body = json!({"metadata": {"generation": 7}});
/// apply(&[Change::Set(ready.observed(Some(7)))], &mut body)?;
/// assert_eq!(body["status"]["conditions"][0]["lastTransitionTime"], "2026-01-02T03:04:05Z");
/// assert_eq!(body["status"]["conditions"][0]["observedGeneration"], 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If `status` is not an object, or `status.conditions` is not a list. The body stays as it is.
#[doc(hidden)] // Handlers use `Conditions` of the frontends.
pub fn apply(changes: &[Change], body: &mut Value) -> Result<(), Malformed> {
    let mut conditions = current(body)?;
    let before = conditions.len();
    let mut changed = false;
    for (position, change) in changes.iter().enumerate() {
        let rest = changes.get(position + 1..).unwrap_or_default();
        if rest.iter().any(|later| later.type_() == change.type_()) {
            continue;
        }
        match change {
            Change::Remove { type_ } => conditions.retain(|entry| !is_of(entry, type_)),
            Change::Set(condition) => {
                changed = true;
                set(&mut conditions, condition);
            }
        }
    }
    if changed || conditions.len() != before {
        store(body, conditions);
    }
    Ok(())
}

/// A part of the status that conditions cannot be stored in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} of the object is not {expected}: conditions cannot be stored there")]
pub struct Malformed {
    field: &'static str,
    expected: &'static str,
}

/// Returns the condition of this type, if the body has one.
#[doc(hidden)] // Handlers use `Conditions` of the frontends.
pub fn find<'a>(body: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = body.get("status")?.get("conditions")?.as_array()?;
    conditions.iter().find(|entry| is_of(entry, type_))
}

impl Change {
    fn type_(&self) -> &str {
        match self {
            Self::Set(condition) => &condition.type_,
            Self::Remove { type_ } => type_,
        }
    }
}

fn current(body: &Value) -> Result<Vec<Value>, Malformed> {
    let wrong = |field, expected| Err(Malformed { field, expected });
    match body.get("status") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(status)) => match status.get("conditions") {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(conditions)) => Ok(conditions.clone()),
            Some(_) => wrong("status.conditions", "a list"),
        },
        Some(_) => wrong("status", "an object"),
    }
}

fn set(conditions: &mut Vec<Value>, condition: &Condition) {
    let known = conditions
        .iter_mut()
        .find(|entry| is_of(entry, &condition.type_));
    if let Some(Value::Object(entry)) = known {
        condition.write_to(entry);
    } else {
        let mut entry = Map::new();
        condition.write_to(&mut entry);
        conditions.push(Value::Object(entry));
    }
}

fn store(body: &mut Value, conditions: Vec<Value>) {
    if let Value::Object(body) = body {
        let status = crate::field::object_at(body, "status");
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
}

fn is_of(entry: &Value, type_: &str) -> bool {
    entry.get("type").and_then(Value::as_str) == Some(type_)
}

fn is_type(text: &str) -> bool {
    let name = text.rsplit_once('/').map_or(text, |(_, name)| name);
    let prefix = text.rsplit_once('/').map(|(prefix, _)| prefix);
    let is_dns = |prefix: &str| {
        is_framed(prefix)
            && prefix
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))
    };
    text.len() <= TYPE_LIMIT
        && prefix.is_none_or(is_dns)
        && is_framed(name)
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Returns `true` if the text begins and ends with a letter or a digit.
fn is_framed(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(is_plain) && text.ends_with(is_plain)
}

fn is_reason(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    text.len() <= REASON_LIMIT
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(is_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn ready(status: bool, message: &str, now: i64) -> Change {
        let condition = Condition::new("Ready", status.into(), "Reason", message, at(now));
        Change::Set(condition.unwrap().observed(Some(2)))
    }

    fn others() -> Value {
        json!({"status": {"phase": "x", "conditions": [
            {"type": "A", "status": "True", "custom": 1},
            {"type": "Ready", "status": "True", "reason": "Reason", "message": "m",
             "observedGeneration": 2, "lastTransitionTime": "1970-01-01T00:00:01Z"},
            {"type": "B", "status": "False"},
        ]}})
    }

    #[test]
    fn equal_conditions_change_nothing() {
        let mut body = others();
        apply(&[ready(true, "m", 50)], &mut body).unwrap();
        assert_eq!(body, others());
    }

    #[test]
    fn transition_time_changes_with_the_status_only() {
        let mut body = others();
        apply(&[ready(true, "other", 50)], &mut body).unwrap();
        let condition = find(&body, "Ready").unwrap();
        assert_eq!(condition["message"], "other");
        assert_eq!(condition["lastTransitionTime"], "1970-01-01T00:00:01Z");
        apply(&[ready(false, "other", 50)], &mut body).unwrap();
        let condition = find(&body, "Ready").unwrap();
        assert_eq!(condition["status"], "False");
        assert_eq!(condition["lastTransitionTime"], "1970-01-01T00:00:50Z");
    }

    #[test]
    fn order_and_other_conditions_are_kept() {
        let mut body = others();
        let added = Condition::new("C", ConditionStatus::Unknown, "R", "", at(3)).unwrap();
        let remove = Change::Remove {
            type_: "B".to_owned(),
        };
        apply(
            &[Change::Set(added), ready(false, "m", 3), remove],
            &mut body,
        )
        .unwrap();
        let types: Vec<_> = body["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| &c["type"])
            .collect();
        assert_eq!(types, ["A", "Ready", "C"]);
        assert_eq!(body["status"]["conditions"][0]["custom"], 1);
        assert_eq!(body["status"]["phase"], "x");
        assert_eq!(find(&body, "C").unwrap().get("observedGeneration"), None);
    }

    #[test]
    fn intermediate_states_are_not_transitions() {
        let mut body = others();
        apply(&[ready(false, "n", 9), ready(true, "m", 9)], &mut body).unwrap();
        assert_eq!(body, others());
    }

    #[test]
    fn removing_an_absent_condition_changes_nothing() {
        let mut body = json!({"spec": {}});
        apply(
            &[Change::Remove {
                type_: "X".to_owned(),
            }],
            &mut body,
        )
        .unwrap();
        assert_eq!(body, json!({"spec": {}}));
    }

    #[test]
    fn foreign_types_of_fields_are_errors() {
        for (body, text) in [
            (
                json!({"status": "x"}),
                "status of the object is not an object",
            ),
            (
                json!({"status": {"conditions": {}}}),
                "status.conditions of the object is not a list",
            ),
        ] {
            let mut changed = body.clone();
            let error = apply(&[ready(true, "m", 1)], &mut changed).unwrap_err();
            assert!(error.to_string().starts_with(text), "{error}");
            assert_eq!(changed, body);
        }
    }

    #[test]
    fn conventions_are_checked() {
        let make = |type_: &str, reason: &str| {
            Condition::new(type_, ConditionStatus::True, reason, "", at(0)).map(drop)
        };
        for type_ in ["Ready", "example.com/Ready", "a.b-c_D"] {
            assert!(make(type_, "R").is_ok(), "{type_}");
        }
        for type_ in ["", "-x", "x-", "a b", "/x", "X.com/Y", "ä"] {
            let error = make(type_, "R").unwrap_err().to_string();
            assert!(error.starts_with("invalid type of a condition"), "{error}");
        }
        for reason in ["R", "Minimum_Replicas", "A1,b:c"] {
            assert!(make("X", reason).is_ok(), "{reason}");
        }
        for reason in ["", "1", "two words", "x:", "ä"] {
            let error = make("X", reason).unwrap_err().to_string();
            assert!(
                error.starts_with("invalid reason of a condition"),
                "{error}"
            );
        }
        let long = "x".repeat(MESSAGE_LIMIT + 1);
        let error = Condition::new("X", ConditionStatus::True, "R", long, at(0)).unwrap_err();
        assert!(error.to_string().len() < 300, "{error}");
        let error = "yes".parse::<ConditionStatus>().unwrap_err().to_string();
        assert_eq!(
            error,
            "invalid status of a condition \"yes\": must be True, False or Unknown"
        );
        assert_eq!(ConditionStatus::from(None), ConditionStatus::Unknown);
    }
}
