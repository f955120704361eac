//! Differences between two states of an object.
//!
//! Diffs decide whether there is something to handle, and are arguments of handlers. Objects are
//! compared key by key, everything else, including lists, as a whole. A key with null equals an absent
//! key. Only differing values are copied.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::equality::equal;
use crate::field::{FieldPath, resolve_lenient};
use crate::literal::{Literal, Text};

static NULL: Value = Value::Null;

/// A change of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiffOperation {
    /// The field was absent and is present.
    Add,
    /// The field has another value.
    Change,
    /// The field was present and is absent.
    Remove,
}

impl DiffOperation {
    /// Returns the name in diffs: `add`, `change`, `remove`.
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
#[non_exhaustive]
pub struct DiffItem {
    /// The kind of the change.
    pub operation: DiffOperation,
    /// The path of the field, relative to the compared values.
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
///
/// Diffs made by [`between`](Self::between) are computed when they are first read: most handlers of
/// creations never read them.
#[derive(Clone, Default)]
pub struct Diff(Option<Arc<Lazy>>);

struct Lazy {
    old: Option<Arc<Value>>,
    new: Option<Arc<Value>>,
    items: OnceLock<Box<[DiffItem]>>,
}

impl Diff {
    /// Returns the differences from the old state to the new one. They are computed on the first use.
    pub fn between(old: Option<Arc<Value>>, new: Option<Arc<Value>>) -> Self {
        let is_same = match (&old, &new) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        if is_same {
            return Self::default();
        }
        let items = OnceLock::new();
        Self(Some(Arc::new(Lazy { old, new, items })))
    }

    /// Returns the same changes as seen from one field: changes inside of it, with shorter paths, and
    /// changes of the field together with its parents. Changes elsewhere are omitted.
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

    /// Returns the merge-patch that makes the same changes to another value, such as a child that
    /// follows its parent. Additional fields of the other value are kept.
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
                // Removing it as a whole would also remove additional fields of the other value.
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
        let Some(lazy) = &self.0 else { return &[] };
        lazy.items.get_or_init(|| {
            let old = lazy.old.as_deref().unwrap_or(&NULL);
            let new = lazy.new.as_deref().unwrap_or(&NULL);
            walk(old, new, false).into()
        })
    }
}

impl PartialEq for Diff {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Diff").field(&&**self).finish()
    }
}

impl FromIterator<DiffItem> for Diff {
    fn from_iter<I: IntoIterator<Item = DiffItem>>(items: I) -> Self {
        let items: Box<[DiffItem]> = items.into_iter().collect();
        if items.is_empty() {
            return Self::default();
        }
        Self(Some(Arc::new(Lazy {
            old: None,
            new: None,
            items: OnceLock::from(items),
        })))
    }
}

impl<'a> IntoIterator for &'a Diff {
    type Item = &'a DiffItem;
    type IntoIter = std::slice::Iter<'a, DiffItem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
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

/// Writes the inside of a Python tuple: a single item is followed by a comma.
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

/// Returns the differences from the old value to the new one.
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
    walk(old, new, false).into_iter().collect()
}

/// Returns the differences in the keys of the left value only: how much of it is in the right one.
pub fn diff_left_scoped(left: &Value, right: &Value) -> Diff {
    walk(left, right, true).into_iter().collect()
}

fn walk(a: &Value, b: &Value, left_only: bool) -> Vec<DiffItem> {
    let mut items = Vec::new();
    Walk {
        left_only,
        steps: Vec::new(),
        items: &mut items,
    }
    .compare(a, b);
    items
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
            // Without a check for equality: the walk of equal objects finds nothing.
            (Value::Object(a), Value::Object(b)) => self.compare_objects(a, b),
            _ if equal(a, b) => {}
            _ => self.report(DiffOperation::Change, a, b),
        }
    }

    fn compare_objects(&mut self, a: &'v Map<String, Value>, b: &'v Map<String, Value>) {
        // The most frequent case, without looking keys up: both maps are sorted.
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
    fn lazy_diffs_equal_computed_ones() {
        let values = [
            None,
            Some(json!({"a": 1})),
            Some(json!({"a": 2, "b": [1]})),
            Some(json!(null)),
        ];
        for old in &values {
            for new in &values {
                let shared = |side: &Option<Value>| side.clone().map(Arc::new);
                let null = Value::Null;
                let eager = diff(old.as_ref().unwrap_or(&null), new.as_ref().unwrap_or(&null));
                let lazy = Diff::between(shared(old), shared(new));
                assert_eq!(lazy, eager);
                assert_eq!(lazy.clone().len(), eager.len());
                assert_eq!(format!("{lazy:?}"), format!("{eager:?}"));
            }
        }
        let same = Arc::new(json!({"a": 1}));
        assert!(Diff::between(Some(Arc::clone(&same)), Some(same)).is_empty());
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
    fn null_equals_absent() {
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
    fn merge_patch_repeats_only_the_changes() {
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
    fn root_can_be_added_removed_and_changed() {
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
    fn left_scope_ignores_keys_of_the_right() {
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
    fn diff_is_reduced_to_a_field() {
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
    fn display_matches_the_original() {
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
