//! The finalizer on an object, and the transformations that add and remove it.
//!
//! `object::Finalizer` decides in each cycle before changes are handled; the changes are
//! transformation functions, so that they are sent guarded by the object's version.

use serde_json::{Value, json};

use crate::body::Body;
use crate::patch::PatchFn;

/// The names of the transformations in logs, as in the original.
const ADD_LABEL: &str = "block_deletion";
const REMOVE_LABEL: &str = "allow_deletion";

/// Returns `true` if our finalizer is on the object and blocks its deletion.
pub fn is_blocked(body: &Body, finalizer: &str) -> bool {
    body.finalizers().any(|present| present == finalizer)
}

/// Returns a function that adds the finalizer after others, unless it is present, or the object is
/// being deleted: then Kubernetes accepts no new ones.
pub fn add_fn(finalizer: &str) -> PatchFn {
    let finalizer = finalizer.to_owned();
    PatchFn::new(ADD_LABEL, move |body: &mut Value| {
        if body
            .pointer("/metadata/deletionTimestamp")
            .is_some_and(|time| !time.is_null())
        {
            return Ok(());
        }
        let Some(list) = finalizers_mut(body) else {
            return Err("the metadata or the finalizers of the object have a wrong type".into());
        };
        if !list.iter().any(|present| *present == *finalizer) {
            list.push(Value::from(finalizer.as_str()));
        }
        Ok(())
    })
    .dropped_after_conflict()
}

/// Returns a function that removes all occurrences of the finalizer, and the list if it becomes
/// empty.
pub fn remove_fn(finalizer: &str) -> PatchFn {
    let finalizer = finalizer.to_owned();
    PatchFn::new(REMOVE_LABEL, move |body: &mut Value| {
        let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) else {
            return Ok(());
        };
        if let Some(list) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
            list.retain(|present| *present != *finalizer);
            if list.is_empty() {
                metadata.remove("finalizers");
            }
        }
        Ok(())
    })
    .dropped_after_conflict()
}

fn finalizers_mut(body: &mut Value) -> Option<&mut Vec<Value>> {
    let metadata = body
        .as_object_mut()?
        .entry("metadata")
        .or_insert_with(|| json!({}));
    let list = metadata
        .as_object_mut()?
        .entry("finalizers")
        .or_insert(Value::Null);
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_functions_are_dropped_after_a_conflict() {
        for own in [add_fn("f"), remove_fn("f")] {
            assert!(!own.is_repeated_after_conflict(), "{}", own.label());
            let other = PatchFn::new(own.label(), |_| Ok(()));
            assert!(other.is_repeated_after_conflict(), "{}", own.label());
        }
    }
    use crate::object::{Finalizer, FinalizerChange};

    const F: &str = "f.example/F";

    fn with(finalizers: &Value, deleting: bool) -> Body {
        let mut body = json!({"metadata": {"name": "x", "finalizers": finalizers}});
        if deleting {
            body["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        }
        Body::new(body)
    }

    #[test]
    fn decisions() {
        let (nothing, add, drop) = (
            None,
            Some(FinalizerChange::Add),
            Some(FinalizerChange::Drop),
        );
        for (required, present, deleting, expected) in [
            (true, false, false, add),
            (true, false, true, nothing),
            (true, true, false, nothing),
            (true, true, true, nothing),
            (false, false, false, nothing),
            (false, false, true, nothing),
            (false, true, false, drop),
            (false, true, true, drop),
        ] {
            let list = if present {
                json!(["a", F])
            } else {
                json!(["a"])
            };
            let body = with(&list, deleting);
            assert_eq!(
                Finalizer::new(required, is_blocked(&body, F)).change(body.is_deleting()),
                expected,
                "required={required} present={present} deleting={deleting}"
            );
        }
    }

    fn applied(function: &PatchFn, mut body: Value) -> Value {
        function.call(&mut body).unwrap();
        body
    }

    #[test]
    fn adding_appends_once() {
        let add = add_fn(F);
        for (before, after) in [
            (json!({}), json!({"metadata": {"finalizers": [F]}})),
            (
                json!({"metadata": {"finalizers": null}}),
                json!({"metadata": {"finalizers": [F]}}),
            ),
            (
                json!({"metadata": {"finalizers": ["a"]}}),
                json!({"metadata": {"finalizers": ["a", F]}}),
            ),
            (
                json!({"metadata": {"finalizers": [F, "a"]}}),
                json!({"metadata": {"finalizers": [F, "a"]}}),
            ),
        ] {
            assert_eq!(applied(&add, before), after);
        }
    }

    #[test]
    fn adding_to_a_malformed_list_is_an_error() {
        assert!(add_fn(F).call(&mut json!({"metadata": []})).is_err());
        assert!(
            add_fn(F)
                .call(&mut json!({"metadata": {"finalizers": "x"}}))
                .is_err()
        );
    }

    #[test]
    fn removing_drops_all_occurrences_and_the_empty_list() {
        let remove = remove_fn(F);
        for (before, after) in [
            (
                json!({"metadata": {"finalizers": [F]}}),
                json!({"metadata": {}}),
            ),
            (
                json!({"metadata": {"finalizers": [F, "a", F]}}),
                json!({"metadata": {"finalizers": ["a"]}}),
            ),
            (
                json!({"metadata": {"name": "x"}}),
                json!({"metadata": {"name": "x"}}),
            ),
            (json!({}), json!({})),
        ] {
            assert_eq!(applied(&remove, before), after);
        }
    }
}
