//! What is different between two states of an object.
//!
//! Diffs decide whether there is something to handle, and handlers get them. Objects are compared
//! key by key, everything else (lists too) as a whole. A key with null is the same as no key.
//! Nothing is copied unless it differs.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::equality::equal;
use crate::field::{FieldPath, resolve_lenient};
use crate::literal::{Literal, Text};

static NULL: Value = Value::Null;

/// What happened to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiffOperation {
    /// It was not there, now it is.
    Add,
    /// It has another value.
    Change,
    /// It is not there anymore.
    Remove,
}

impl DiffOperation {
    /// The name in diffs: `add`, `change`, `remove`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Change => "change",
            Self::Remove => "remove",
        }
    }
}

impl fmt::Display for DiffOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for DiffOperation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One difference. Serialised as a list: `["change", ["spec", "field"], 1, 2]`.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffItem {
    /// What happened.
    pub operation: DiffOperation,
    /// Where, relative to the compared values.
    pub field: FieldPath,
    /// The value before; null if added.
    pub old: Value,
    /// The value after; null if removed.
    pub new: Value,
}

impl Serialize for DiffItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.operation, &self.field, &self.old, &self.new).serialize(serializer)
    }
}

/// Looks as in the original: `('change', ('spec', 'field'), 1, 2)`.
impl fmt::Display for DiffItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "('{}', (", self.operation)?;
        write_tuple(f, self.field.steps().iter().map(|step| Text(step)))?;
        write!(f, "), {}, {})", Literal(&self.old), Literal(&self.new))
    }
}

/// All differences between two values, in a stable order. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff(Arc<[DiffItem]>);

impl Diff {
    /// The same changes as seen from one field: what is inside it, with shorter paths, and what
    /// has changed in it together with its parents. Changes elsewhere are left out.
    #[must_use]
    pub fn reduce(&self, path: &FieldPath) -> Self {
        if path.is_root() {
            return self.clone();
        }
        let mut items = Vec::new();
        for item in self {
            if let Some(field) = item.field.strip_prefix(path) {
                items.push(DiffItem {
                    field,
                    ..item.clone()
                });
            } else if let Some(tail) = path.strip_prefix(&item.field) {
                let old = resolve_lenient(&item.old, &tail).unwrap_or(&NULL);
                let new = resolve_lenient(&item.new, &tail).unwrap_or(&NULL);
                Walk {
                    left_only: false,
                    steps: Vec::new(),
                    items: &mut items,
                }
                .compare(old, new);
            }
        }
        items.into_iter().collect()
    }

    /// The merge-patch that makes the same changes to something else, such as a child that follows
    /// its parent. What the other has in addition stays there.
    ///
    /// ```
    /// use kopf_core::diff::diff;
    /// use serde_json::json;
    ///
    /// let labels = diff(&json!({"app": "web", "old": "x"}), &json!({"app": "api", "new": "y"}));
    /// assert_eq!(labels.merge_patch(), json!({"app": "api", "new": "y", "old": null}));
    /// ```
    pub fn merge_patch(&self) -> Value {
        let mut patch = Value::Object(Map::new());
        for item in self {
            let mut place = &mut patch;
            for step in item.field.steps() {
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                place = &mut place[step.as_ref()];
            }
            *place = match (&item.new, &item.old) {
                // As a whole it would also take what the other has in addition.
                (Value::Null, Value::Object(old)) => {
                    old.keys().map(|key| (key.clone(), Value::Null)).collect()
                }
                (new, _) => new.clone(),
            };
        }
        patch
    }
}

impl Deref for Diff {
    type Target = [DiffItem];

    fn deref(&self) -> &[DiffItem] {
        &self.0
    }
}

impl FromIterator<DiffItem> for Diff {
    fn from_iter<I: IntoIterator<Item = DiffItem>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Diff {
    type Item = &'a DiffItem;
    type IntoIter = std::slice::Iter<'a, DiffItem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Serialize for Diff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// Looks as in the original: `(('change', ('spec', 'field'), 1, 2),)`.
impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        write_tuple(f, self.iter())?;
        f.write_str(")")
    }
}

/// The inside of a Python tuple: a single item is followed by a comma.
fn write_tuple<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl ExactSizeIterator<Item = T>,
) -> fmt::Result {
    let single = items.len() == 1;
    for (index, item) in items.enumerate() {
        write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
    }
    f.write_str(if single { "," } else { "" })
}

/// The differences from the old value to the new one.
///
/// ```
/// use kopf_core::diff::{DiffOperation, diff};
/// use serde_json::json;
///
/// let found = diff(&json!({"spec": {"a": 1}}), &json!({"spec": {"a": 1, "b": {"c": 2}}}));
/// assert_eq!(found.len(), 1);
/// assert_eq!(found[0].operation, DiffOperation::Add);
/// assert_eq!(found[0].field.to_string(), "spec.b");
/// ```
pub fn diff(old: &Value, new: &Value) -> Diff {
    walk(old, new, false)
}

/// The differences in those keys only that the left value has: how much of it is in the right one.
pub fn diff_left_scoped(left: &Value, right: &Value) -> Diff {
    walk(left, right, true)
}

fn walk(a: &Value, b: &Value, left_only: bool) -> Diff {
    let mut items = Vec::new();
    Walk {
        left_only,
        steps: Vec::new(),
        items: &mut items,
    }
    .compare(a, b);
    items.into_iter().collect()
}

struct Walk<'v, 'i> {
    left_only: bool,
    steps: Vec<&'v str>,
    items: &'i mut Vec<DiffItem>,
}

impl<'v> Walk<'v, '_> {
    fn compare(&mut self, a: &'v Value, b: &'v Value) {
        match (a, b) {
            (Value::Null, Value::Null) => {}
            (Value::Null, _) => self.report(DiffOperation::Add, a, b),
            (_, Value::Null) => self.report(DiffOperation::Remove, a, b),
            // Not checked for equality first: if they are equal, the walk finds nothing.
            (Value::Object(a), Value::Object(b)) => self.compare_objects(a, b),
            _ if equal(a, b) => {}
            _ => self.report(DiffOperation::Change, a, b),
        }
    }

    fn compare_objects(&mut self, a: &'v Map<String, Value>, b: &'v Map<String, Value>) {
        // The usual case by far, without looking keys up: both maps are sorted.
        if a.len() == b.len() && a.keys().eq(b.keys()) {
            for ((key, value), other) in a.iter().zip(b.values()) {
                self.compare_at(key, value, other);
            }
            return;
        }
        if !self.left_only {
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                self.compare_at(key, &NULL, value);
            }
        }
        for (key, value) in a.iter().filter(|(key, _)| !b.contains_key(*key)) {
            self.compare_at(key, value, &NULL);
        }
        for (key, value) in a {
            if let Some(other) = b.get(key) {
                self.compare_at(key, value, other);
            }
        }
    }

    fn compare_at(&mut self, key: &'v str, a: &'v Value, b: &'v Value) {
        self.steps.push(key);
        self.compare(a, b);
        self.steps.pop();
    }

    fn report(&mut self, operation: DiffOperation, old: &Value, new: &Value) {
        let field = self.steps.iter().copied().collect();
        self.items.push(DiffItem {
            operation,
            field,
            old: old.clone(),
            new: new.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(old: &Value, new: &Value) -> Value {
        serde_json::to_value(diff(old, new)).unwrap()
    }

    #[test]
    fn equal_values_have_no_diff() {
        for value in [
            json!(null),
            json!(1),
            json!("x"),
            json!([1, {}]),
            json!({"a": {"b": 1}}),
        ] {
            assert!(diff(&value, &value).is_empty());
        }
        assert!(diff(&json!({"a": [1]}), &json!({"a": [1.0]})).is_empty());
    }

    #[test]
    fn null_is_the_same_as_absent() {
        assert!(diff(&json!({"a": null}), &json!({})).is_empty());
        assert!(diff(&json!({}), &json!({"a": null})).is_empty());
        assert_eq!(
            found(&json!({"a": null}), &json!({"a": 1})),
            json!([["add", ["a"], null, 1]])
        );
        assert_eq!(
            found(&json!({"a": 1}), &json!({"a": null})),
            json!([["remove", ["a"], 1, null]])
        );
    }

    #[test]
    fn new_keys_then_gone_keys_then_common_keys() {
        let old = json!({"gone": 1, "same": {"x": 1}, "other": "a", "deep": {"gone": 1, "n": 1}});
        let new = json!({"new": {"y": {"z": 1}}, "same": {"x": 1}, "other": "b", "deep": {"n": 2}});
        let expected = json!([
            ["add", ["new"], null, {"y": {"z": 1}}],
            ["remove", ["gone"], 1, null],
            ["remove", ["deep", "gone"], 1, null],
            ["change", ["deep", "n"], 1, 2],
            ["change", ["other"], "a", "b"],
        ]);
        assert_eq!(found(&old, &new), expected);
    }

    #[test]
    fn everything_but_objects_is_compared_as_a_whole() {
        assert_eq!(
            found(&json!({"l": [1, {"a": 1}]}), &json!({"l": [1, {"a": 2}]})),
            json!([["change", ["l"], [1, {"a": 1}], [1, {"a": 2}]]])
        );
        assert_eq!(
            found(&json!({"a": {"b": 1}}), &json!({"a": "text"})),
            json!([["change", ["a"], {"b": 1}, "text"]])
        );
        assert_eq!(
            found(&json!({"a": true}), &json!({"a": 1}))
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn a_merge_patch_repeats_the_changes_and_takes_nothing_else() {
        let patch = |old: Value, new: Value| diff(&old, &new).merge_patch();
        assert_eq!(patch(json!({"a": 1}), json!({"a": 1})), json!({}));
        assert_eq!(
            patch(
                json!({"gone": 1, "deep": {"gone": 1, "n": 1}, "map": {"x": {"y": 1}}}),
                json!({"new": {"y": 1}, "deep": {"n": 2}}),
            ),
            json!({"new": {"y": 1}, "gone": null, "deep": {"gone": null, "n": 2}, "map": {"x": null}})
        );
        assert_eq!(patch(json!(null), json!({"a": 1})), json!({"a": 1}));
        assert_eq!(patch(json!({"a": 1}), json!(null)), json!({"a": null}));
        assert_eq!(patch(json!("1G"), json!("2G")), json!("2G"));
        assert_eq!(patch(json!("1G"), json!(null)), json!(null));
    }

    #[test]
    fn the_root_can_be_added_removed_and_changed() {
        assert_eq!(
            found(&json!(null), &json!({"a": 1})),
            json!([["add", [], null, {"a": 1}]])
        );
        assert_eq!(
            found(&json!({"a": 1}), &json!(null)),
            json!([["remove", [], {"a": 1}, null]])
        );
        assert_eq!(found(&json!(1), &json!(2)), json!([["change", [], 1, 2]]));
    }

    #[test]
    fn the_left_scope_ignores_what_only_the_right_has() {
        let sent = json!({"a": 1, "lost": {"x": 1}, "same": {"x": 1}, "deleted": null});
        let answer = json!({"a": 2, "same": {"x": 1, "y": 2}, "more": 1});
        assert_eq!(
            serde_json::to_value(diff_left_scoped(&sent, &answer)).unwrap(),
            json!([["remove", ["lost"], {"x": 1}, null], ["change", ["a"], 1, 2]])
        );
        assert_eq!(
            serde_json::to_value(diff_left_scoped(&json!({"a": null}), &json!({"a": 1}))).unwrap(),
            json!([["add", ["a"], null, 1]])
        );
    }

    #[test]
    fn reduced_to_a_field_from_inside_from_above_and_from_aside() {
        let reduce = |old: Value, new: Value, path: &str| {
            serde_json::to_value(diff(&old, &new).reduce(&path.into())).unwrap()
        };
        let (old, new) = (
            json!({"spec": {"a": {"b": 1, "c": 2}, "d": 3}}),
            json!({"spec": {
                "a": {"b": 5, "c": 2}, "d": 6,
            }}),
        );
        // From inside: the paths get shorter.
        assert_eq!(
            reduce(old.clone(), new.clone(), "spec.a"),
            json!([["change", ["b"], 1, 5]])
        );
        assert_eq!(
            reduce(old.clone(), new.clone(), "spec.a.b"),
            json!([["change", [], 1, 5]])
        );
        assert_eq!(reduce(old.clone(), new.clone(), "spec.a.c"), json!([]));
        assert_eq!(reduce(old.clone(), new.clone(), "status"), json!([]));
        assert_eq!(reduce(old.clone(), new.clone(), ""), found(&old, &new));
        // From above: a parent was added, removed or changed as a whole.
        assert_eq!(
            reduce(json!(null), new.clone(), "spec.d"),
            json!([["add", [], null, 6]])
        );
        assert_eq!(
            reduce(json!({}), new.clone(), "spec.a"),
            json!([["add", [], null, {"b": 5, "c": 2}]])
        );
        assert_eq!(
            reduce(old.clone(), json!({}), "spec.d"),
            json!([["remove", [], 3, null]])
        );
        assert_eq!(
            reduce(old.clone(), json!({"spec": {"a": "text"}}), "spec.a.b"),
            json!([["remove", [], 1, null]])
        );
        assert_eq!(reduce(old, json!({"spec": 1}), "spec.none.x"), json!([]));
    }

    // The texts are from the logs of the original.
    #[test]
    fn shown_as_in_the_original() {
        let old = json!({
            "metadata": {"labels": {"a": "1"}}, "spec": {"field": "value", "items": ["a", "b"]},
        });
        let new = json!({
            "metadata": {"labels": {"b": "2"}},
            "spec": {"field": "other", "items": ["a", "b"], "extra": {"x": {"y": 1}}},
        });
        assert_eq!(
            diff(&old, &new).to_string(),
            "(('add', ('metadata', 'labels', 'b'), None, '2'), \
             ('remove', ('metadata', 'labels', 'a'), '1', None), \
             ('add', ('spec', 'extra'), None, {'x': {'y': 1}}), \
             ('change', ('spec', 'field'), 'value', 'other'))"
        );
        assert_eq!(
            diff(
                &json!({"spec": {"field": "value"}}),
                &json!({"spec": {"field": "new"}})
            )
            .to_string(),
            "(('change', ('spec', 'field'), 'value', 'new'),)"
        );
        assert_eq!(
            diff(&json!(null), &json!("x")).to_string(),
            "(('add', (), None, 'x'),)"
        );
        assert_eq!(
            diff(&json!(null), &json!({"a": 1})).to_string(),
            "(('add', (), None, {'a': 1}),)"
        );
        assert_eq!(
            diff(&json!({"a": 1}), &json!({"a": 2})).to_string(),
            "(('change', ('a',), 1, 2),)"
        );
        assert_eq!(Diff::default().to_string(), "()");
    }
}
