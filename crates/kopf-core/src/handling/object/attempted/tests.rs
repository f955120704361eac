//! Tests of attempted essences.

use proptest::prelude::*;

use super::*;
use crate::progress::{
    AnnotationsProgressStorage, MultiProgressStorage, SmartProgressStorage, StatusProgressStorage,
};

fn record(second: i64, retries: u32) -> ProgressRecord {
    ProgressRecord {
        started: Timestamp::from_second(second).ok(),
        retries,
        ..ProgressRecord::default()
    }
}

fn annotation() -> Place {
    KeyNaming::default().into()
}

fn essence(value: Value) -> Arc<Value> {
    Arc::new(value)
}

fn stored(attempted: &AttemptedEssences) -> Body {
    let mut patch = Patch::default();
    let body = Body::new(json!({"metadata": {"name": "x"}}));
    attempted.store(&annotation(), &body, &mut patch);
    let mut value = body.value().clone();
    json_patch::merge(&mut value, &Value::Object(patch.merge));
    Body::new(value)
}

#[test]
fn text_follows_records_into_the_status() {
    let status = StatusProgressStorage::default();
    let place = Place::new(KeyNaming::default(), &status);
    let mut attempted = AttemptedEssences::default();
    attempted.note("fn", &record(1, 1), &essence(json!({"spec": {"a": 1}})));
    // The annotation is left of another storage.
    let body = stored(&attempted);
    let mut patch = Patch::default();
    attempted.store(&place, &body, &mut patch);
    let mut value = body.value().clone();
    json_patch::merge(&mut value, &Value::Object(patch.merge));
    assert_eq!(value["metadata"]["annotations"], json!({}));
    assert!(value["status"]["kopf"]["attempted-essences"].is_string());
    let body = Body::new(value.clone());
    assert_eq!(AttemptedEssences::fetch(&place, &body), attempted);
    assert!(AttemptedEssences::is_stored(&place, &body));
    AttemptedEssences::strip(&place, &body, &mut value);
    assert_eq!(value.get("status"), None, "not a change to be handled");
    let mut patch = Patch::default();
    AttemptedEssences::default().store(&place, &body, &mut patch);
    assert_eq!(
        patch.merge["status"],
        json!({"kopf": {"attempted-essences": null}})
    );
}

#[test]
fn annotations_are_used_unless_all_records_are_in_the_status() {
    let field = |storage: &dyn ProgressStorage| Place::new(KeyNaming::default(), storage).field;
    let status = || StatusProgressStorage::new("own").field("status.records");
    assert_eq!(field(&status()), Some("status.attempted-essences".into()));
    let single = StatusProgressStorage::default().field("records");
    assert_eq!(field(&single), Some("records.attempted-essences".into()));
    assert_eq!(field(&SmartProgressStorage::default()), None);
    let both = MultiProgressStorage::new([
        Arc::new(status()) as Arc<dyn ProgressStorage>,
        Arc::new(AnnotationsProgressStorage::default()),
    ]);
    assert_eq!(field(&both), None);
    let only = MultiProgressStorage::new([Arc::new(status()) as Arc<dyn ProgressStorage>]);
    assert!(field(&only).is_some());
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
    assert_eq!(AttemptedEssences::fetch(&annotation(), &body), attempted);
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
        let read = AttemptedEssences::fetch(&annotation(), &body);
        assert!(read.is_empty(), "{text}");
    }
}

#[test]
fn empty_attempts_remove_the_annotation() {
    let mut attempted = AttemptedEssences::default();
    attempted.note("fn", &record(1, 1), &essence(json!({})));
    let body = stored(&attempted);
    let mut patch = Patch::default();
    AttemptedEssences::default().store(&annotation(), &body, &mut patch);
    assert_eq!(
        patch.merge["metadata"]["annotations"]["kopf.zalando.org/attempted-essences"],
        json!(null)
    );
    let mut patch = Patch::default();
    let bare = Body::new(json!({"metadata": {}}));
    AttemptedEssences::default().store(&annotation(), &bare, &mut patch);
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
