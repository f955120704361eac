//! The finalizer on an object: the transformation that adds it, and the operations that remove it.
//!
//! `object::Finalizer` decides in each cycle before changes are handled. The finalizer is added by a
//! transformation function, which is sent guarded by the object's version. Its [`Removal`] is
//! guarded by the finalizer itself, so that it does not conflict with other changes of the object.

use serde_json::{Map, Value, json};

use crate::body::Body;
use crate::patch::{self, PatchFn, json_calls_between};

/// The names of the changes in logs, as in the original.
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

/// The removal of the finalizer by one JSON patch.
///
/// The patch tests the uid and the position of the finalizer, and not the version of the object:
/// other clients can change anything else at the same time. If the position has changed, the server
/// rejects the patch, and the operations must be computed for a newer version.
///
/// ```
/// use kopf_core::finalizer::Removal;
/// use serde_json::json;
///
/// let body = json!({"metadata": {"uid": "u", "finalizers": ["other", "mine"]}});
/// let operations = Removal::new("mine").operations(&body, true)?;
/// assert_eq!(json!(operations), json!([
///     {"op": "test", "path": "/metadata/uid", "value": "u"},
///     {"op": "test", "path": "/metadata/finalizers/1", "value": "mine"},
///     {"op": "remove", "path": "/metadata/finalizers/1"},
/// ]));
/// # Ok::<_, kopf_core::patch::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    finalizer: String,
    erasure: Map<String, Value>,
}

impl Removal {
    /// The name in logs, as that of the original's transformation.
    pub const LABEL: &'static str = REMOVE_LABEL;

    /// Removes all occurrences of the finalizer.
    pub fn new(finalizer: &str) -> Self {
        Self {
            finalizer: finalizer.to_owned(),
            erasure: Map::new(),
        }
    }

    /// Also applies this merge patch, unless the object ends with the removal of the finalizer. The
    /// part of a status subresource is omitted, because it would need another request.
    #[must_use]
    pub fn erasing(self, erasure: Map<String, Value>) -> Self {
        Self { erasure, ..self }
    }

    /// Returns the operations for this version of the object; none if the finalizer is absent.
    ///
    /// # Errors
    /// If the changes cannot be serialised.
    pub fn operations(
        &self,
        body: &Value,
        status_subresource: bool,
    ) -> Result<Vec<Value>, patch::Error> {
        let list = body.pointer("/metadata/finalizers");
        let list = list
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        let positions = (0..list.len()).filter(|position| list[*position] == *self.finalizer);
        let positions: Vec<usize> = positions.collect();
        if positions.is_empty() {
            return Ok(Vec::new());
        }
        let test = |path: &str, value: &Value| json!({"op": "test", "path": path, "value": value});
        let uid = body.pointer("/metadata/uid");
        let mut operations: Vec<Value> = uid
            .map(|uid| test("/metadata/uid", uid))
            .into_iter()
            .collect();
        // From the last one, so that the positions of the others do not change.
        for position in positions.iter().rev() {
            let path = format!("/metadata/finalizers/{position}");
            operations.push(test(&path, &Value::from(&*self.finalizer)));
            operations.push(json!({"op": "remove", "path": path}));
        }
        if positions.len() < list.len() && !self.erasure.is_empty() {
            let mut erased = body.clone();
            json_patch::merge(&mut erased, &Value::Object(self.erasure.clone()));
            operations.extend(json_calls_between(body, &erased, status_subresource)?.main);
        }
        Ok(operations)
    }
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
    use crate::object::{Finalizer, FinalizerChange};

    #[test]
    fn only_own_functions_are_dropped_after_a_conflict() {
        let own = add_fn("f");
        assert!(!own.is_repeated_after_conflict());
        let other = PatchFn::new(own.label(), |_| Ok(()));
        assert!(other.is_repeated_after_conflict());
    }

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

    fn removed(removal: &Removal, body: &Value) -> (Vec<Value>, Value) {
        let operations = removal.operations(body, true).unwrap();
        let patch: json_patch::Patch = serde_json::from_value(json!(operations)).unwrap();
        let mut after = body.clone();
        json_patch::patch(&mut after, &patch).unwrap();
        (operations, after)
    }

    #[test]
    fn all_occurrences_are_removed_and_others_are_kept() {
        for (before, after) in [
            (json!([F]), json!([])),
            (json!([F, "a", F]), json!(["a"])),
            (json!(["a", "b", F]), json!(["a", "b"])),
        ] {
            let body = json!({"metadata": {"uid": "u", "finalizers": before}});
            let (operations, object) = removed(&Removal::new(F), &body);
            assert_eq!(object["metadata"]["finalizers"], after);
            let test = json!({"op": "test", "path": "/metadata/uid", "value": "u"});
            assert_eq!(operations[0], test);
            let has_version = |operation: &Value| operation["path"] == "/metadata/resourceVersion";
            assert!(!operations.iter().any(has_version), "{operations:?}");
        }
    }

    #[test]
    fn absent_finalizers_need_no_operations() {
        for body in [
            json!({}),
            json!({"metadata": {"uid": "u", "finalizers": ["a"]}}),
            json!({"metadata": {"uid": "u", "finalizers": null}}),
        ] {
            let removal = Removal::new(F).erasing(erasure());
            assert_eq!(removal.operations(&body, true).unwrap(), [Value::Null; 0]);
        }
    }

    fn erasure() -> Map<String, Value> {
        let erasure = json!({
            "metadata": {"annotations": {"k/a": null, "k/absent": null}},
            "status": {"kopf": {"a": null}},
        });
        erasure.as_object().cloned().unwrap()
    }

    #[test]
    fn records_are_erased_from_remaining_objects_by_the_same_patch() {
        let removal = Removal::new(F).erasing(erasure());
        let body = json!({
            "metadata": {"uid": "u", "annotations": {"k/a": "1", "b": "2"}, "finalizers": ["a", F]},
            "status": {"kopf": {"a": 1}},
        });
        let (operations, object) = removed(&removal, &body);
        assert_eq!(object["metadata"]["annotations"], json!({"b": "2"}));
        assert_eq!(object["status"], body["status"], "it needs another request");
        assert_eq!(operations.len(), 4, "{operations:?}");

        let operations = removal.operations(&body, false).unwrap();
        assert_eq!(operations.len(), 5, "there is no status subresource");

        let last = json!({"metadata": {"annotations": {"k/a": "1"}, "finalizers": [F]}});
        let (operations, _) = removed(&removal, &last);
        assert_eq!(operations.len(), 2, "the object ends: {operations:?}");
    }

    #[test]
    fn moved_finalizers_fail_the_test() {
        let body = json!({"metadata": {"uid": "u", "finalizers": ["a", F, "b"]}});
        let operations = Removal::new(F).operations(&body, true).unwrap();
        let patch: json_patch::Patch = serde_json::from_value(json!(operations)).unwrap();
        let mut moved = json!({"metadata": {"uid": "u", "finalizers": [F, "b"]}});
        assert!(json_patch::patch(&mut moved, &patch).is_err());
        let mut other = json!({"metadata": {"uid": "v", "finalizers": ["a", F, "b"]}});
        assert!(json_patch::patch(&mut other, &patch).is_err());
    }
}
