//! Detection of own writes whose resulting version needs no handling.
//!
//! When all handlers are finished, the results are written and arrive as an event. Parsing it only
//! to find no changes would be a large part of all work. The response to the write suffices: if the
//! essence, the finalizers and the owners are unchanged, there is nothing to react to. In doubt,
//! the result is `false`, and the event is handled as any other.

use serde_json::Value;

use crate::body::Body;
use crate::diffbase::DiffBaseStorage;
use crate::equality::equal;
use crate::progress::ProgressStorage;

/// Top-level fields of resources whose `generation` covers every tracked field outside of
/// `metadata`. Others may have fields that it does not count.
const USUAL: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Returns `true` if an own write left nothing to react to.
///
/// - `handled`: the essence that was stored by the write, of the body `before` it.
/// - `after`: the object in the response; a part suffices, see [`Body::parse_part`].
///
/// Filters are not considered: the caller must ensure that they depend only on essences.
pub fn is_settled(
    handled: &Value,
    before: &Body,
    after: &Body,
    diffbase: &dyn DiffBaseStorage,
    progress: &dyn ProgressStorage,
) -> bool {
    if !diffbase.is_usual() || before.is_deleting() || after.is_deleting() {
        return false;
    }
    let fields = before.value().as_object();
    if !fields.is_some_and(|fields| fields.keys().all(|key| USUAL.contains(&key.as_str()))) {
        return false;
    }
    // Compared because other clients and webhooks may have changed the spec.
    let generation = |body: &Body| body.metadata().get("generation").and_then(Value::as_i64);
    if generation(before).is_none() || generation(before) != generation(after) {
        return false;
    }
    let same = |key| before.metadata().get(key) == after.metadata().get(key);
    if !same("finalizers") || !same("ownerReferences") {
        return false;
    }
    let Ok(mut essence) = diffbase.build(after, &[]) else {
        return false;
    };
    if progress.clear(&mut essence).is_err() {
        return false;
    }
    match (handled.get("metadata"), essence.get("metadata")) {
        (Some(handled), Some(essence)) => equal(handled, essence),
        (handled, essence) => handled.is_none() && essence.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diffbase::{AnnotationsDiffBaseStorage, MultiDiffBaseStorage, StorageError};
    use crate::field::FieldPath;
    use crate::patch::Patch;
    use crate::progress::SmartProgressStorage;

    fn before() -> Value {
        json!({
            "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
            "metadata": {"name": "a", "generation": 3, "labels": {"l": "1"},
                         "annotations": {"plain": "1"}, "finalizers": ["f"]},
            "spec": {"field": 1},
        })
    }

    /// Returns the response after writing the diff-base and the result.
    fn after() -> Value {
        let mut after = before();
        after["metadata"]["annotations"]["kopf.zalando.org/last-handled-configuration"] =
            json!("{}\n");
        after["metadata"]["annotations"]["kopf.zalando.org/progress"] = json!("{}");
        after["metadata"]["resourceVersion"] = json!("5");
        after["status"] = json!({"create_fn": "result"});
        after
    }

    fn check(before: Value, after: &Value, diffbase: &dyn DiffBaseStorage) -> bool {
        let before = Body::new(before);
        let part = Body::parse_part(after.to_string().as_bytes(), &|key| key == "status").unwrap();
        let progress = SmartProgressStorage::default();
        let handled = AnnotationsDiffBaseStorage::default().build(&before, &[]);
        is_settled(&handled.unwrap(), &before, &part, diffbase, &progress)
    }

    #[test]
    fn own_state_is_settled() {
        let diffbase = AnnotationsDiffBaseStorage::default();
        assert!(check(before(), &after(), &diffbase));
        let multi = MultiDiffBaseStorage::new([std::sync::Arc::new(diffbase) as _]);
        assert!(check(before(), &after(), &multi));
        let mut bare = json!({"metadata": {"generation": 1}, "spec": {}});
        let empty = bare.clone();
        bare["metadata"]["annotations"] = json!({"kopf.zalando.org/x": "1"});
        assert!(check(empty, &bare, &multi));
    }

    #[test]
    fn changes_of_others_are_not_settled() {
        for (pointer, value) in [
            ("/metadata/generation", json!(4)),
            ("/metadata/generation", json!(null)),
            ("/metadata/labels/l", json!("2")),
            ("/metadata/annotations/plain", json!("2")),
            ("/metadata/annotations", json!({})),
            ("/metadata/finalizers", json!([])),
            ("/metadata/finalizers", json!(["f", "g"])),
        ] {
            let mut after = after();
            *after.pointer_mut(pointer).unwrap() = value;
            let diffbase = AnnotationsDiffBaseStorage::default();
            assert!(!check(before(), &after, &diffbase), "{pointer}");
        }
        for (key, value) in [
            ("deletionTimestamp", json!("2020-01-01T00:00:00Z")),
            ("ownerReferences", json!([{"uid": "u"}])),
        ] {
            let mut after = after();
            after["metadata"][key] = value;
            let diffbase = AnnotationsDiffBaseStorage::default();
            assert!(!check(before(), &after, &diffbase), "{key}");
        }
    }

    #[test]
    fn writes_without_a_generation_are_not_settled() {
        let (mut before, mut after) = (before(), after());
        for body in [&mut before, &mut after] {
            body["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("generation");
        }
        assert!(!check(
            before,
            &after,
            &AnnotationsDiffBaseStorage::default()
        ));
    }

    #[test]
    fn resources_with_other_fields_are_not_settled() {
        let (mut before, mut after) = (before(), after());
        for body in [&mut before, &mut after] {
            body["data"] = json!({"k": "v"});
        }
        assert!(!check(
            before,
            &after,
            &AnnotationsDiffBaseStorage::default()
        ));
    }

    #[test]
    fn custom_essences_are_not_settled() {
        #[derive(Debug)]
        struct Own;
        impl DiffBaseStorage for Own {
            fn build(&self, _: &Body, _: &[FieldPath]) -> Result<Value, StorageError> {
                Ok(json!({"metadata": {"labels": {"l": "1"}, "annotations": {"plain": "1"}}}))
            }
            fn strip(&self, _: &Body, _: &mut Value) {}
            fn fetch(&self, _: &Body) -> Result<Option<Value>, StorageError> {
                Ok(None)
            }
            fn store(&self, _: &Body, _: &mut Patch, _: &Value) -> Result<(), StorageError> {
                Ok(())
            }
        }
        assert!(!check(before(), &after(), &Own));
        let multi = MultiDiffBaseStorage::new([std::sync::Arc::new(Own) as _]);
        assert!(!check(before(), &after(), &multi));
    }
}
