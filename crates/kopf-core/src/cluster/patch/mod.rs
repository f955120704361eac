//! Patches: the changes of an object at the end of a cycle.
//!
//! A [`Patch`] contains a merge-patch dictionary (`status.x = 1`), and functions that change the
//! object at the time of application (such as adding a finalizer to the list).
//! [`Patch::merge_calls`] and [`json_calls`] convert them to payloads. The engine sends them in the
//! right order to the right endpoints.

mod calls;
mod difference;
mod function;
mod verification;

use serde_json::{Map, Value};

pub use self::calls::{
    Error, JsonCalls, MergeCalls, json_calls, json_calls_between, transform, with_version_test,
};
pub use self::difference::subtract_fields;
pub use self::function::{BoxError, PatchFn, Transformed};
pub use self::verification::inconsistencies;

use crate::body::Body;
use crate::field::{self, FieldPath, object_at};

/// All changes of an object in a cycle.
///
/// ```
/// use kopf_core::patch::Patch;
/// use serde_json::json;
///
/// let mut patch = Patch::default();
/// assert!(patch.is_empty());
/// patch.status_mut().insert("phase".to_owned(), json!("ready"));
/// patch.set(&"metadata.labels.old".into(), json!(null)); // null deletes
/// assert_eq!(patch.merge["status"], json!({"phase": "ready"}));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Patch {
    /// The merge-patch (RFC 7386): nulls delete, objects are merged, other values are replaced.
    pub merge: Map<String, Value>,
    /// The functions, to be run in this order on the newest body.
    pub fns: Vec<PatchFn>,
}

impl Patch {
    /// Returns `true` if there is nothing to send. Empty stanzas do not count.
    pub fn is_empty(&self) -> bool {
        self.fns.is_empty()
            && self
                .merge
                .iter()
                .all(|(key, value)| calls::is_idle(key, value))
    }

    /// Sets a field and its parents. Null deletes it from the object.
    ///
    /// At the root, an object's fields are set one by one; other values are ignored there.
    pub fn set(&mut self, path: &FieldPath, value: Value) {
        field::overwrite(&mut self.merge, path, value);
    }

    /// Removes a field from the patch (not from the object), with parents that become empty.
    pub fn remove_key(&mut self, path: &FieldPath) {
        field::remove(&mut self.merge, path);
    }

    /// Returns the value of the field in the patch.
    pub fn get(&self, path: &FieldPath) -> Option<&Value> {
        field::resolve_in(&self.merge, path)
    }

    /// Returns the `status` of the patch, for changes.
    pub fn status_mut(&mut self) -> &mut Map<String, Value> {
        object_at(&mut self.merge, "status")
    }

    /// Returns the `spec` of the patch, for changes.
    pub fn spec_mut(&mut self) -> &mut Map<String, Value> {
        object_at(&mut self.merge, "spec")
    }

    /// Returns the `metadata` of the patch, for changes.
    pub fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        object_at(&mut self.merge, "metadata")
    }

    /// Returns the `metadata.labels` of the patch, for changes.
    pub fn labels_mut(&mut self) -> &mut Map<String, Value> {
        object_at(self.metadata_mut(), "labels")
    }

    /// Returns the `metadata.annotations` of the patch, for changes.
    pub fn annotations_mut(&mut self) -> &mut Map<String, Value> {
        object_at(self.metadata_mut(), "annotations")
    }

    /// Adds another patch, which takes precedence.
    pub fn merge_from(&mut self, other: Self) {
        merge_objects(&mut self.merge, other.merge);
        self.fns.extend(other.fns);
    }

    /// Returns the object with this patch applied, without the server's own changes.
    pub fn applied_to(&self, body: &Body) -> Result<Body, BoxError> {
        let mut value = body.value().clone();
        json_patch::merge(&mut value, &Value::Object(self.merge.clone()));
        // Functions that are awaited cannot be called here.
        for function in self.fns.iter().filter(|function| !function.is_awaited()) {
            function.call(&mut value)?;
        }
        Ok(Body::new(value).with_order(body.order().cloned()))
    }

    /// Returns an object with the fields of the patch merged into it, without its functions.
    pub fn merged_into(&self, mut object: Value) -> Value {
        json_patch::merge(&mut object, &Value::Object(self.merge.clone()));
        object
    }

    /// Takes the values that are not in an earlier state of this patch, or differ from it.
    pub(crate) fn take_later(&mut self, earlier: &Map<String, Value>) -> Map<String, Value> {
        take_later(&mut self.merge, earlier)
    }

    /// Adds a function to be run when the patch is applied.
    pub fn add_fn(&mut self, function: PatchFn) {
        self.fns.push(function);
    }
}

fn take_later(target: &mut Map<String, Value>, earlier: &Map<String, Value>) -> Map<String, Value> {
    let mut later = Map::new();
    target.retain(|key, value| match (&mut *value, earlier.get(key)) {
        (value, Some(earlier)) if value == earlier => true,
        (Value::Object(inner), Some(Value::Object(earlier))) => {
            let taken = take_later(inner, earlier);
            if !taken.is_empty() {
                later.insert(key.clone(), Value::Object(taken));
            }
            true
        }
        (value, _) => {
            later.insert(key.clone(), value.take());
            false
        }
    });
    later
}

/// Joins two merge-patches into one. Nulls are kept: they delete.
fn merge_objects(target: &mut Map<String, Value>, source: Map<String, Value>) {
    for (key, value) in source {
        match (target.get_mut(&key), value) {
            (Some(Value::Object(target)), Value::Object(source)) => merge_objects(target, source),
            (_, value) => drop(target.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patch(merge: Value) -> Patch {
        let Value::Object(merge) = merge else {
            panic!("not an object: {merge}")
        };
        Patch {
            merge,
            fns: Vec::new(),
        }
    }

    #[test]
    fn fields_are_set_read_and_removed() {
        let mut patch = Patch::default();
        patch.set(&"spec.a.b".into(), json!(1));
        patch.set(&"spec.c".into(), json!(null));
        assert_eq!(patch.get(&"spec.a.b".into()), Some(&json!(1)));
        assert_eq!(patch.get(&"spec.c".into()), Some(&json!(null)));
        assert_eq!(patch.get(&"spec.x".into()), None);
        patch.remove_key(&"spec.a.b".into());
        assert_eq!(
            Value::Object(patch.merge.clone()),
            json!({"spec": {"c": null}})
        );
        patch.remove_key(&"spec.c".into());
        patch.remove_key(&"spec.c".into());
        assert!(patch.merge.is_empty());
    }

    #[test]
    fn setting_replaces_parents_of_other_types() {
        let mut patch = patch(json!({"status": null, "spec": "text"}));
        patch.set(&"status.x.y".into(), json!(1));
        patch.spec_mut().insert("z".to_owned(), json!(2));
        patch.set(&FieldPath::root(), json!({"data": {}}));
        patch.set(&FieldPath::root(), json!(1));
        assert_eq!(
            Value::Object(patch.merge),
            json!({"status": {"x": {"y": 1}}, "spec": {"z": 2}, "data": {}})
        );
    }

    #[test]
    fn accessing_stanzas_keeps_the_patch_empty() {
        let mut patch = Patch::default();
        patch.status_mut();
        patch.spec_mut();
        patch.labels_mut();
        patch.annotations_mut();
        assert!(patch.is_empty());
        assert_eq!(patch.merge_calls(true), MergeCalls::default());
        patch.labels_mut().insert("a".to_owned(), json!(null));
        assert!(!patch.is_empty());
        let main = patch.merge_calls(true).main;
        assert_eq!(main, Some(json!({"metadata": {"labels": {"a": null}}})));
    }

    #[test]
    fn function_alone_makes_the_patch_not_empty() {
        let mut patch = Patch::default();
        patch.add_fn(PatchFn::new("nothing", |_| Ok(())));
        assert!(!patch.is_empty());
        assert_eq!(format!("{:?}", patch.fns), "[PatchFn(\"nothing\")]");
    }

    #[test]
    fn later_values_are_taken() {
        let earlier = patch(json!({"status": {"a": 1, "b": {"c": 2}}, "metadata": {}}));
        let mut later = earlier.clone();
        let added = patch(json!({
            "status": {"b": {"c": null, "d": null}},
            "metadata": {"annotations": {"x": null}},
        }));
        later.merge_from(added.clone());
        let taken = later.take_later(&earlier.merge);
        assert_eq!(taken, added.merge);
        let left = json!({"status": {"a": 1, "b": {}}, "metadata": {}});
        assert_eq!(Value::Object(later.merge), left);
    }

    #[test]
    fn later_patch_wins_in_a_deep_merge() {
        let mut first = patch(json!({"status": {"a": {"x": 1}, "b": 1, "c": null}, "spec": 1}));
        let mut second = patch(json!({"status": {"a": {"y": null}, "b": null, "c": {"z": 1}}}));
        second.add_fn(PatchFn::new("f", |_| Ok(())));
        first.merge_from(second);
        assert_eq!(
            Value::Object(first.merge),
            json!({"status": {"a": {"x": 1, "y": null}, "b": null, "c": {"z": 1}}, "spec": 1})
        );
        assert_eq!(first.fns.len(), 1);
    }
}
