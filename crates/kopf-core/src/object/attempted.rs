//! Attempted essences: which state of the object each unfinished cause's handlers were called with.
//!
//! A change that arrives while other handlers of the same cause still run or wait must not be lost
//! for the handlers that have finished. So the essence of the last attempt of every handler is kept
//! beside its progress record. When the cause is over and some of these essences are outdated, the
//! diff-base is composed so that an update with exactly the missed changes follows.
//!
//! Stored in the annotation `<prefix>/attempted-essences` as
//! `{"essences":[…],"attempts":{"<id>":{"essence":0,"started":"…","retries":1}}}`, the oldest essence
//! first. An attempt counts only while the progress record of its handler has the same `started`
//! and `retries`: records written by other operators make it void.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::body::Body;
use crate::encoding::to_json_text;
use crate::equality::equal;
use crate::essence::drop_annotations;
use crate::field::FieldPath;
use crate::keys::KeyNaming;
use crate::lenient;
use crate::patch::Patch;
use crate::progress::ProgressRecord;
use crate::timestamp;

/// The name of the annotation, without its prefix.
pub const KEY: &str = "attempted-essences";

/// One attempt of one handler, identified by the progress record it has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    essence: usize,
    started: Option<Timestamp>,
    retries: u32,
}

/// The essences of the last attempts of all handlers and sub-handlers of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AttemptedEssences {
    essences: Vec<Arc<Value>>,
    attempts: BTreeMap<String, Attempt>,
}

impl AttemptedEssences {
    /// Reads the annotation. Returns nothing for an absent or unreadable one: then every record
    /// counts as made with the current essence.
    pub fn fetch(naming: &KeyNaming, body: &Body) -> Self {
        let keys = naming.keys(KEY, body);
        let text = keys.iter().find_map(|key| body.annotation(key));
        text.and_then(Self::parse).unwrap_or_default()
    }

    /// Returns `true` if the object has the annotation.
    pub fn is_stored(naming: &KeyNaming, body: &Body) -> bool {
        !body.annotations().is_empty()
            && naming
                .keys(KEY, body)
                .iter()
                .any(|key| body.annotation(key).is_some())
    }

    /// Adds the annotation to the patch, or its removal if there are no attempts.
    pub fn store(&self, naming: &KeyNaming, body: &Body, patch: &mut Patch) {
        let text = (!self.is_empty()).then(|| self.to_text());
        for key in naming.keys(KEY, body) {
            let stored = body.annotation(&key);
            if stored == text.as_deref() {
                patch.remove_key(&annotation_path(&key));
            } else {
                let value = text.as_deref().map_or(Value::Null, Value::from);
                patch.annotations_mut().insert(key, value);
            }
        }
        if text.is_some() {
            naming.mark(body, patch);
        }
    }

    /// Returns the size of the annotation in bytes.
    pub fn size(&self) -> usize {
        self.to_text().len()
    }

    /// Removes the annotation from an essence.
    pub fn strip(naming: &KeyNaming, body: &Body, essence: &mut Value) {
        if Self::is_stored(naming, body) {
            let keys = naming.keys(KEY, body);
            drop_annotations(essence, |key| keys.iter().any(|own| own == key));
        }
    }

    /// Returns `true` if there are no attempts.
    pub fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// Returns the ids of all handlers with attempts.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.attempts.keys().map(String::as_str)
    }

    /// Records an attempt that has led to this progress record.
    pub fn note(&mut self, id: &str, record: &ProgressRecord, essence: &Arc<Value>) {
        self.attempts.remove(id);
        self.drop_unused();
        let known = self.essences.iter().position(|known| equal(known, essence));
        let position = known.unwrap_or_else(|| {
            self.essences.push(Arc::clone(essence));
            self.essences.len() - 1
        });
        let attempt = Attempt {
            essence: position,
            started: stored_moment(record),
            retries: record.retries,
        };
        self.attempts.insert(id.to_owned(), attempt);
    }

    /// Keeps only the attempts of these handlers.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&str) -> bool) {
        self.attempts.retain(|id, _| is_kept(id));
        self.drop_unused();
    }

    /// Drops the attempts that their handlers' records do not confirm.
    pub fn validate<'a>(&mut self, record: impl Fn(&str) -> Option<&'a ProgressRecord>) {
        self.attempts.retain(|id, attempt| {
            record(id).is_some_and(|record| {
                // Records that were reset are started before their next attempt.
                let is_reset = attempt.retries == 0 && attempt.started.is_none();
                let is_same = is_reset || stored_moment(record) == attempt.started;
                is_same && record.retries == attempt.retries
            })
        });
        self.drop_unused();
    }

    /// Returns the handlers whose last attempt was made with another essence than this one.
    pub fn outdated(&self, current: &Value) -> BTreeSet<&str> {
        let is_outdated = |attempt: &Attempt| {
            let essence = self.essences.get(attempt.essence);
            essence.is_some_and(|essence| !equal(essence, current))
        };
        let outdated = self.attempts.iter();
        let outdated = outdated.filter(|(_, attempt)| is_outdated(attempt));
        outdated.map(|(id, _)| id.as_str()).collect()
    }

    /// Composes the diff-base from which an update with all missed changes follows: at each leaf,
    /// the value of the oldest attempted essence that differs there, otherwise the current value.
    pub fn compose(&self, current: &Value) -> Value {
        let essences: Vec<Option<&Value>> = self.essences.iter().map(|e| Some(&**e)).collect();
        compose(Some(current), &essences).unwrap_or(Value::Null)
    }

    fn drop_unused(&mut self) {
        let used: BTreeSet<usize> = self
            .attempts
            .values()
            .map(|attempt| attempt.essence)
            .collect();
        if used.len() == self.essences.len() {
            return;
        }
        let mut kept = Vec::with_capacity(used.len());
        for (position, old) in used.into_iter().enumerate() {
            let attempts = self.attempts.values_mut();
            for attempt in attempts.filter(|attempt| attempt.essence == old) {
                attempt.essence = position;
            }
            kept.extend(self.essences.get(old).cloned());
        }
        self.essences = kept;
    }

    fn to_text(&self) -> String {
        let attempts: Map<String, Value> = self
            .attempts
            .iter()
            .map(|(id, attempt)| {
                let started = attempt.started.map(timestamp::format);
                let retries = attempt.retries;
                let value =
                    json!({"essence": attempt.essence, "started": started, "retries": retries});
                (id.clone(), value)
            })
            .collect();
        let essences: Vec<&Value> = self.essences.iter().map(|essence| &**essence).collect();
        to_json_text(&json!({"essences": essences, "attempts": attempts}))
    }

    fn parse(text: &str) -> Option<Self> {
        let value = lenient::from_str(text).ok()?;
        let essences = value.get("essences")?.as_array()?;
        let essences: Vec<_> = essences.iter().cloned().map(Arc::new).collect();
        let attempts = value.get("attempts")?.as_object()?.iter();
        let attempts = attempts.filter_map(|(id, attempt)| {
            let essence = usize::try_from(attempt.get("essence")?.as_u64()?).ok()?;
            let started = attempt.get("started").and_then(Value::as_str);
            let attempt = Attempt {
                essence: Some(essence).filter(|essence| *essence < essences.len())?,
                started: started.and_then(|text| timestamp::parse(text).ok()),
                retries: u32::try_from(attempt.get("retries")?.as_u64()?).ok()?,
            };
            Some((id.clone(), attempt))
        });
        let attempts = attempts.collect();
        let mut this = Self { essences, attempts };
        this.drop_unused();
        Some(this)
    }
}

/// Returns when a handler was started, with the resolution of stored records: attempts that are kept
/// in memory are compared with records that were stored and loaded.
fn stored_moment(record: &ProgressRecord) -> Option<Timestamp> {
    let started = record.started?;
    Timestamp::from_microsecond(started.as_microsecond()).ok()
}

/// Returns the essence that an attempt is recorded with: the predicted one with the patch applied,
/// because own changes are not news. Where the prediction equals the diff-base but not the current
/// essence, it is likely to be reverted by the server as it was before (a normalised or pruned value),
/// and the current value is taken: otherwise updates would follow forever.
pub fn settle_prediction(old: Option<&Value>, current: &Value, predicted: &Value) -> Value {
    settle(old, Some(current), Some(predicted)).unwrap_or(Value::Null)
}

fn settle(
    old: Option<&Value>,
    current: Option<&Value>,
    predicted: Option<&Value>,
) -> Option<Value> {
    if let (Some(Value::Object(now)), Some(Value::Object(then))) = (current, predicted) {
        let keys: BTreeSet<&String> = now.keys().chain(then.keys()).collect();
        let fields = keys.into_iter().filter_map(|key| {
            let old = old.and_then(|old| old.get(key));
            Some((key.clone(), settle(old, now.get(key), then.get(key))?))
        });
        return Some(Value::Object(fields.collect()));
    }
    let is_reverted = match (old, predicted) {
        (Some(old), Some(predicted)) => equal(old, predicted),
        _ => false,
    };
    if is_reverted {
        current.cloned()
    } else {
        predicted.cloned()
    }
}

fn annotation_path(key: &str) -> FieldPath {
    FieldPath::root()
        .join("metadata")
        .join("annotations")
        .join(key)
}

/// Composes one value; `None` is an absent one.
fn compose(current: Option<&Value>, essences: &[Option<&Value>]) -> Option<Value> {
    let differs = |essence: Option<&Value>| match (essence, current) {
        (Some(essence), Some(current)) => !equal(essence, current),
        (essence, current) => essence.is_some() != current.is_some(),
    };
    let Some(oldest) = essences.iter().copied().find(|essence| differs(*essence)) else {
        return current.cloned();
    };
    // A stanza that only one side has is a leaf: it was added or removed as a whole.
    let (Some(Value::Object(now)), Some(Value::Object(_))) = (current, oldest) else {
        return oldest.cloned();
    };
    let stanzas = essences
        .iter()
        .filter_map(|essence| essence.and_then(Value::as_object));
    let keys: BTreeSet<&String> = stanzas.flat_map(Map::keys).chain(now.keys()).collect();
    let fields = keys.into_iter().filter_map(|key| {
        let inner: Vec<_> = essences
            .iter()
            .map(|essence| essence.and_then(|essence| essence.get(key)))
            .collect();
        Some((key.clone(), compose(now.get(key), &inner)?))
    });
    Some(Value::Object(fields.collect()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(second: i64, retries: u32) -> ProgressRecord {
        ProgressRecord {
            started: Timestamp::from_second(second).ok(),
            retries,
            ..ProgressRecord::default()
        }
    }

    fn essence(value: Value) -> Arc<Value> {
        Arc::new(value)
    }

    fn stored(attempted: &AttemptedEssences) -> Body {
        let mut patch = Patch::default();
        let body = Body::new(json!({"metadata": {"name": "x"}}));
        attempted.store(&KeyNaming::default(), &body, &mut patch);
        let mut value = body.value().clone();
        json_patch::merge(&mut value, &Value::Object(patch.merge));
        Body::new(value)
    }

    #[test]
    fn annotation_has_a_fixed_format() {
        let mut attempted = AttemptedEssences::default();
        attempted.note(
            "fn",
            &record(1_767_323_045, 1),
            &essence(json!({"spec": {"a": 1}})),
        );
        let body = stored(&attempted);
        assert_eq!(
            body.annotation("kopf.zalando.org/attempted-essences"),
            Some(concat!(
                r#"{"attempts":{"fn":{"essence":0,"retries":1,"started":"2026-01-02T03:04:05.000000+00:00"}},"#,
                r#""essences":[{"spec":{"a":1}}]}"#
            ))
        );
        assert_eq!(
            AttemptedEssences::fetch(&KeyNaming::default(), &body),
            attempted
        );
    }

    #[test]
    fn malformed_annotation_counts_as_absent() {
        for text in [
            "",
            "null",
            "[]",
            "{",
            r#"{"essences":1,"attempts":{}}"#,
            r#"{"essences":[{}],"attempts":{"fn":{"essence":7,"retries":1}}}"#,
        ] {
            let body = Body::new(
                json!({"metadata": {"annotations": {"kopf.zalando.org/attempted-essences": text}}}),
            );
            let read = AttemptedEssences::fetch(&KeyNaming::default(), &body);
            assert!(read.is_empty(), "{text}");
        }
    }

    #[test]
    fn empty_attempts_remove_the_annotation() {
        let mut attempted = AttemptedEssences::default();
        attempted.note("fn", &record(1, 1), &essence(json!({})));
        let body = stored(&attempted);
        let mut patch = Patch::default();
        AttemptedEssences::default().store(&KeyNaming::default(), &body, &mut patch);
        assert_eq!(
            patch.merge["metadata"]["annotations"]["kopf.zalando.org/attempted-essences"],
            json!(null)
        );
        let mut patch = Patch::default();
        let bare = Body::new(json!({"metadata": {}}));
        AttemptedEssences::default().store(&KeyNaming::default(), &bare, &mut patch);
        assert!(patch.is_empty());
    }

    #[test]
    fn attempts_are_void_unless_their_records_confirm_them() {
        let mut attempted = AttemptedEssences::default();
        attempted.note("a", &record(1, 1), &essence(json!(1)));
        attempted.note("b", &record(1, 1), &essence(json!(2)));
        attempted.note("c", &record(1, 1), &essence(json!(3)));
        let (same, later) = (record(1, 1), record(1, 2));
        attempted.validate(|id| match id {
            "a" => Some(&same),
            "b" => Some(&later),
            _ => None,
        });
        assert_eq!(attempted.ids().collect::<Vec<_>>(), ["a"]);
        assert_eq!(attempted.essences.len(), 1);
    }

    #[test]
    fn reset_records_confirm_their_essence_until_the_next_attempt() {
        let mut attempted = AttemptedEssences::default();
        attempted.note("a", &ProgressRecord::default(), &essence(json!(1)));
        let (activated, tried) = (record(5, 0), record(5, 1));
        attempted.validate(|_| Some(&activated));
        assert_eq!(attempted.ids().collect::<Vec<_>>(), ["a"]);
        attempted.validate(|_| Some(&tried));
        assert!(attempted.is_empty());
    }

    #[test]
    fn records_confirm_attempts_after_they_were_stored() {
        let precise = ProgressRecord {
            started: Timestamp::from_nanosecond(1_767_323_045_678_901_234).ok(),
            retries: 1,
            ..ProgressRecord::default()
        };
        let text = timestamp::format(precise.started.unwrap());
        let loaded = ProgressRecord {
            started: timestamp::parse(&text).ok(),
            ..precise.clone()
        };
        let mut attempted = AttemptedEssences::default();
        attempted.note("a", &precise, &essence(json!(1)));
        attempted.validate(|_| Some(&loaded));
        assert!(!attempted.is_empty());
    }

    #[test]
    fn base_has_the_oldest_differing_value_of_each_leaf() {
        let mut attempted = AttemptedEssences::default();
        attempted.note(
            "a",
            &record(1, 1),
            &essence(json!({"spec": {"x": 1, "y": 1, "l": [1], "gone": 1}})),
        );
        attempted.note(
            "b",
            &record(1, 1),
            &essence(json!({"spec": {"x": 2, "y": 2, "l": [1]}})),
        );
        let current = json!({"spec": {"x": 1, "y": 3, "l": [1], "new": {"k": 1}}});
        assert_eq!(
            attempted.compose(&current),
            json!({"spec": {"x": 2, "y": 1, "l": [1], "gone": 1}})
        );
        assert_eq!(attempted.outdated(&current).len(), 2);
        assert_eq!(
            attempted
                .outdated(&json!({"spec": {"x": 2, "y": 2, "l": [1]}}))
                .len(),
            1
        );
    }

    #[test]
    fn prediction_that_was_reverted_before_is_not_repeated() {
        let current = json!({"spec": {"cpu": "1", "x": 1}});
        let predicted = json!({"spec": {"cpu": "1000m", "x": 2, "y": 3}});
        assert_eq!(settle_prediction(None, &current, &predicted), predicted);
        let old = json!({"spec": {"cpu": "1000m", "x": 0}});
        assert_eq!(
            settle_prediction(Some(&old), &current, &predicted),
            json!({"spec": {"cpu": "1", "x": 2, "y": 3}})
        );
    }

    fn small() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(1)), Just(json!(2)), Just(json!([1]))];
        leaf.prop_recursive(2, 6, 2, |inner| {
            proptest::collection::btree_map("[ab]", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
        })
    }

    proptest! {
        #[test]
        fn base_differs_from_the_current_essence_iff_an_attempt_is_outdated(
            current in small(), first in small(), second in small(),
        ) {
            let mut attempted = AttemptedEssences::default();
            attempted.note("a", &record(1, 1), &essence(first));
            attempted.note("b", &record(1, 1), &essence(second));
            let composed = attempted.compose(&current);
            prop_assert_eq!(!equal(&composed, &current), !attempted.outdated(&current).is_empty());
        }
    }
}
