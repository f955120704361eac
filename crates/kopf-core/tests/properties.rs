//! Property tests for any object, handler id and record.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests are tests, too"
)]

use kopf_core::body::Body;
use kopf_core::diff::{Diff, DiffOperation, diff, diff_left_scoped};
use kopf_core::diffbase::{AnnotationsDiffBaseStorage, DiffBaseStorage, StatusDiffBaseStorage};
use kopf_core::encoding::to_json_text;
use kopf_core::equality::equal;
use kopf_core::essence;
use kopf_core::field::{self, FieldPath};
use kopf_core::patch::{Patch, PatchFn, inconsistencies, json_calls};
use kopf_core::progress::{
    AnnotationsProgressStorage, ProgressRecord, ProgressStorage, SmartProgressStorage,
    StatusProgressStorage,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Few keys, so that random objects have something in common.
fn keys() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]",
        "metadata|spec|status|labels|annotations|kopf|x/y~z"
    ]
}

fn leaves() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        (-3i32..3).prop_map(|n| Value::from(f64::from(n) / 2.0)),
        "[ab]|ä|".prop_map(Value::from),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    leaves().prop_recursive(4, 48, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(keys(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn objects() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(keys(), values(), 0..5)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// Objects with strings as labels and annotations, as the server guarantees.
fn bodies() -> impl Strategy<Value = Value> {
    let names = "([a-c]|kopf\\.zalando\\.org|marked\\.example)/(x|kopf-managed)|[a-c]";
    let texts = || prop::collection::btree_map(names, "[a-c]{0,3}", 0..4);
    (
        objects(),
        prop::option::of(texts()),
        prop::option::of(texts()),
    )
        .prop_map(|(mut object, labels, annotations)| {
            object["metadata"] = json!({"name": "obj", "resourceVersion": "1"});
            for (key, texts) in [("labels", labels), ("annotations", annotations)] {
                if let Some(texts) = texts {
                    object["metadata"][key] = json!(texts);
                }
            }
            object
        })
}

/// Returns the value as compared by the diff: keys with nulls are absent, numbers are their values.
fn seen(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let present = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                present
                    .map(|(key, value)| (key.clone(), seen(value)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

/// Applies the diff to the old value.
fn follow(mut value: Value, found: &Diff) -> Value {
    for item in found {
        let mut current = &mut value;
        for step in item.field.steps() {
            current = current
                .as_object_mut()
                .unwrap()
                .entry(&**step)
                .or_insert(Value::Null);
        }
        assert!(equal(current, &item.old), "the diff is about another value");
        *current = item.new.clone();
    }
    value
}

/// Applies a merge patch by RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    json_patch::merge(target, patch);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn applying_a_diff_gives_the_new_value(old in values(), new in values()) {
        let result = follow(old.clone(), &diff(&old, &new));
        prop_assert!(equal(&seen(&result), &seen(&new)), "{} {}", result, new);
    }

    #[test]
    fn only_equal_values_have_no_diff(a in values(), b in values()) {
        prop_assert!(diff(&a, &a).is_empty());
        prop_assert_eq!(diff(&a, &b).is_empty(), equal(&seen(&a), &seen(&b)));
    }

    #[test]
    fn reverse_diff_is_the_inverse(a in values(), b in values()) {
        let (there, back) = (diff(&a, &b), diff(&b, &a));
        prop_assert_eq!(there.len(), back.len());
        for item in &there {
            let reverse = match item.operation {
                DiffOperation::Add => DiffOperation::Remove,
                DiffOperation::Change => DiffOperation::Change,
                DiffOperation::Remove => DiffOperation::Add,
            };
            prop_assert!(back.iter().any(|other| other.operation == reverse
                && other.field == item.field && other.old == item.new && other.new == item.old));
        }
    }

    #[test]
    fn reduced_diff_is_the_diff_of_the_field(
        a in objects(), b in objects(), path in prop::collection::vec(keys(), 0..4),
    ) {
        let path = FieldPath::from_iter(path);
        let at = |value| field::resolve_lenient(value, &path).cloned().unwrap_or_default();
        let reduced = diff(&a, &b).reduce(&path);
        prop_assert_eq!(reduced, diff(&at(&a), &at(&b)));
    }

    #[test]
    fn merged_patch_has_no_left_difference(sent in objects(), mut object in objects()) {
        merge(&mut object, &sent);
        prop_assert!(inconsistencies(&sent, &object).is_empty());
        prop_assert!(diff_left_scoped(&object, &object).is_empty());
    }

    #[test]
    fn operations_of_functions_give_the_changed_body(
        body in objects(), wanted in objects(), subresource in any::<bool>(),
    ) {
        let target = wanted.clone();
        let function = PatchFn::new("replace", move |body| {
            *body = target.clone();
            Ok(())
        });
        let calls = json_calls(&[function], &body, subresource).unwrap();
        let mut result = body;
        for operations in [calls.main, calls.status] {
            prop_assert!(subresource || operations.is_empty() || result != wanted);
            let patch: json_patch::Patch = serde_json::from_value(json!(operations)).unwrap();
            json_patch::patch(&mut result, &patch).unwrap();
        }
        prop_assert_eq!(result, wanted);
    }

    #[test]
    fn merge_calls_are_equivalent_to_the_patch(merged in objects(), mut object in objects()) {
        let patch = Patch { merge: merged.as_object().unwrap().clone(), fns: Vec::new() };
        let mut apart = object.clone();
        let calls = patch.merge_calls(true);
        for payload in calls.main.iter().chain(&calls.status) {
            merge(&mut apart, payload);
        }
        if let Some(main) = patch.merge_calls(false).main {
            merge(&mut object, &main);
        }
        prop_assert_eq!(&apart, &object);
        prop_assert!(patch.is_empty() == (calls.main.is_none() && calls.status.is_none()));
    }

    #[test]
    fn later_patch_wins(first in objects(), second in objects(), mut object in objects()) {
        let of = |merge: &Value| Patch { merge: merge.as_object().unwrap().clone(), fns: Vec::new() };
        let mut both = of(&first);
        both.merge_from(of(&second));
        merge(&mut object, &Value::Object(both.merge));
        prop_assert!(inconsistencies(&second, &object).is_empty());
    }

    #[test]
    fn set_fields_are_found_and_removed_again(
        object in objects(), path in prop::collection::vec(keys(), 1..4), value in values(),
    ) {
        let path = FieldPath::from_iter(path);
        let mut map = object.as_object().unwrap().clone();
        if field::ensure(&mut map, &path, value.clone()).is_ok() {
            prop_assert_eq!(field::resolve_in(&map, &path), Some(&value));
            prop_assert_eq!(field::remove(&mut map, &path), Some(value));
            prop_assert_eq!(field::resolve_in(&map, &path), None);
        } else {
            prop_assert_eq!(&Value::Object(map), &object);
        }
    }

    #[test]
    fn essence_is_idempotent(body in bodies()) {
        let once = essence::build(&Body::new(body), &[], &[]).unwrap();
        let twice = essence::build(&Body::new(once.clone()), &[], &[]).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn storing_state_is_not_a_change(
        body in bodies(), id in ".{1,80}", prefix in "kopf\\.zalando\\.org|my-op\\.example\\.com",
        extra in prop::collection::vec(keys().prop_map(FieldPath::from), 0..2),
    ) {
        let diffbase = AnnotationsDiffBaseStorage::new(prefix.clone()).unwrap();
        let annotations = AnnotationsProgressStorage::new(prefix).unwrap();
        let progress = SmartProgressStorage::of(annotations, StatusProgressStorage::default());
        let tracked = |body: &Body| {
            let mut essence = diffbase.build(body, &extra).unwrap();
            progress.clear(&mut essence).unwrap();
            essence
        };
        let mut value = body;
        let before = Body::new(value.clone());
        let essence = tracked(&before);

        let mut patch = Patch::default();
        progress.store(&id, &ProgressRecord::default(), &before, &mut patch).unwrap();
        progress.touch(&before, &mut patch, Some("now")).unwrap();
        diffbase.store(&before, &mut patch, &essence).unwrap();
        merge(&mut value, &Value::Object(patch.merge));
        let after = Body::new(value.clone());
        prop_assert_eq!(&tracked(&after), &essence);
        let mut old = diffbase.fetch(&after).unwrap().unwrap();
        progress.clear(&mut old).unwrap();
        prop_assert!(diff(&old, &tracked(&after)).is_empty());
        prop_assert_eq!(progress.fetch(&id, &after).unwrap(), Some(ProgressRecord::default()));

        let mut patch = Patch::default();
        progress.purge(&id, &after, &mut patch).unwrap();
        progress.touch(&after, &mut patch, None).unwrap();
        merge(&mut value, &Value::Object(patch.merge));
        let purged = Body::new(value);
        prop_assert_eq!(progress.fetch(&id, &purged).unwrap(), None);
        prop_assert_eq!(tracked(&purged), essence);
    }

    #[test]
    fn status_storage_keeps_the_essence(body in bodies()) {
        let storage = StatusDiffBaseStorage::default();
        let mut value = body;
        let before = Body::new(value.clone());
        let essence = storage.build(&before, &[]).unwrap();
        let mut patch = Patch::default();
        storage.store(&before, &mut patch, &essence).unwrap();
        merge(&mut value, &Value::Object(patch.merge));
        let after = Body::new(value);
        prop_assert_eq!(storage.fetch(&after).unwrap(), Some(essence.clone()));
        prop_assert_eq!(storage.build(&after, &[]).unwrap(), essence);
    }

    #[test]
    fn strings_survive_a_round_trip(value in values()) {
        let text = to_json_text(&value);
        prop_assert!(text.is_ascii());
        prop_assert!(equal(&serde_json::from_str(&text).unwrap(), &value));
    }

    #[test]
    fn bodies_survive_a_round_trip(mut body in bodies(), managed in values()) {
        let expected = Body::new(body.clone());
        body["metadata"]["managedFields"] = managed;
        prop_assert_eq!(Body::parse(body.to_string().as_bytes()).unwrap(), expected);
    }

    #[test]
    fn random_input_never_panics(garbage in values(), bytes in any::<Vec<u8>>(), id in any::<String>()) {
        let _ = Body::parse(&bytes);
        for value in [garbage.clone(), json!({"metadata": garbage}), json!({"status": garbage})] {
            let body = Body::new(value.clone());
            let progress = SmartProgressStorage::default();
            let diffbase = AnnotationsDiffBaseStorage::default();
            let mut patch = Patch { merge: value.as_object().cloned().unwrap_or_default(), ..Patch::default() };
            let _ = progress.fetch(&id, &body);
            let _ = progress.store(&id, &ProgressRecord::default(), &body, &mut patch);
            let _ = progress.purge(&id, &body, &mut patch);
            let _ = progress.touch(&body, &mut patch, Some("x"));
            let _ = diffbase.fetch(&body);
            let _ = diffbase.store(&body, &mut patch, &value);
            let mut essence = value;
            let _ = progress.clear(&mut essence);
            if let Ok(mut essence) = diffbase.build(&body, &["status.x".into()]) {
                let _ = progress.clear(&mut essence);
            }
            let _ = (body.reference().to_value(), body.finalizers().count(), patch.merge_calls(true));
        }
    }
}
