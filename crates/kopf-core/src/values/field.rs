//! Paths to fields of an object (`spec.field`), and access to values by paths.
//!
//! Used by handlers' `field=`, diffs, patches and storages, with the same rules: a path never goes
//! into lists, missing parents are created on setting, empty parents are removed on removal. Failed
//! operations change nothing.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// A path of keys from the root of an object; the empty path is the root itself.
///
/// The string form is split at every dot. For keys that contain dots, collect the steps:
///
/// ```
/// use kopf_core::field::FieldPath;
///
/// assert_eq!(FieldPath::parse("spec.field").steps().len(), 2);
/// let label = FieldPath::from_iter(["metadata", "labels", "example.com/name"]);
/// assert_eq!(label.steps().len(), 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FieldPath(Arc<[Arc<str>]>);

/// The error of reading or setting a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An intermediate value of the path is not an object.
    #[error("the field {path} cannot be reached: {parent} is not an object")]
    NotAnObject {
        /// The whole path.
        path: FieldPath,
        /// The path of the value that is not an object.
        parent: FieldPath,
    },
    /// The root cannot be set or removed like a field.
    #[error("the root of an object is not a field of it")]
    Root,
}

impl FieldPath {
    /// Returns the root: the path without steps.
    pub fn root() -> Self {
        Self::default()
    }

    /// Splits a string at every dot; the empty string is the root.
    pub fn parse(text: &str) -> Self {
        if text.is_empty() {
            Self::root()
        } else {
            text.split('.').collect()
        }
    }

    /// Returns the keys, from the root on.
    pub fn steps(&self) -> &[Arc<str>] {
        &self.0
    }

    /// Returns `true` if this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if this path equals the other one or is inside of it.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// Returns the rest of this path after the other one; `None` if it does not start with it.
    pub fn strip_prefix(&self, other: &Self) -> Option<Self> {
        self.0.strip_prefix(&*other.0).map(|rest| Self(rest.into()))
    }

    /// Returns the path inside of this one.
    #[must_use]
    pub fn joined(&self, inner: &Self) -> Self {
        if self.is_root() {
            return inner.clone();
        }
        self.0.iter().chain(&*inner.0).cloned().collect()
    }

    /// Returns the path with one more step, taken literally (dots are not split).
    #[must_use]
    pub fn join(&self, step: impl Into<Arc<str>>) -> Self {
        self.0.iter().cloned().chain([step.into()]).collect()
    }
}

impl<S: Into<Arc<str>>> FromIterator<S> for FieldPath {
    fn from_iter<I: IntoIterator<Item = S>>(steps: I) -> Self {
        Self(steps.into_iter().map(Into::into).collect())
    }
}

impl From<&str> for FieldPath {
    fn from(text: &str) -> Self {
        Self::parse(text)
    }
}

impl From<String> for FieldPath {
    fn from(text: String) -> Self {
        Self::parse(&text)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            f.write_str(step)?;
        }
        Ok(())
    }
}

impl Serialize for FieldPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter())
    }
}

/// Returns the value at the path, or `None` if a key is missing.
///
/// # Errors
///
/// An intermediate value is not an object.
pub fn resolve<'a>(value: &'a Value, path: &FieldPath) -> Result<Option<&'a Value>, Error> {
    let mut current = value;
    for (depth, step) in path.steps().iter().enumerate() {
        let Value::Object(map) = current else {
            return Err(not_an_object(path, depth));
        };
        let Some(inner) = map.get(&**step) else {
            return Ok(None);
        };
        current = inner;
    }
    Ok(Some(current))
}

/// Returns the value at the path; `None` if it does not exist for any reason.
pub fn resolve_lenient<'a>(value: &'a Value, path: &FieldPath) -> Option<&'a Value> {
    path.steps()
        .iter()
        .try_fold(value, |current, step| current.as_object()?.get(&**step))
}

/// Returns the value at the path, as [`resolve_lenient`] does, starting from a map.
pub fn resolve_in<'a>(map: &'a Map<String, Value>, path: &FieldPath) -> Option<&'a Value> {
    let (first, rest) = path.steps().split_first()?;
    rest.iter().try_fold(map.get(&**first)?, |current, step| {
        current.as_object()?.get(&**step)
    })
}

/// Sets the field and creates missing parents as objects. Changes nothing on an error.
pub fn ensure(map: &mut Map<String, Value>, path: &FieldPath, value: Value) -> Result<(), Error> {
    let (last, parents) = path.steps().split_last().ok_or(Error::Root)?;
    let mut existing = Some(&*map);
    for (depth, step) in parents.iter().enumerate() {
        existing = match existing.and_then(|map| map.get(&**step)) {
            None => break,
            Some(Value::Object(inner)) => Some(inner),
            Some(_) => return Err(not_an_object(path, depth + 1)),
        };
    }
    place(map, parents, last, value);
    Ok(())
}

/// Sets the field, and replaces parents that are not objects. At the root, the fields of an object
/// are set one by one, and other values have no effect.
///
/// For patches, where a parent of another type is an earlier value, now superseded.
pub fn overwrite(map: &mut Map<String, Value>, path: &FieldPath, value: Value) {
    match (path.steps().split_last(), value) {
        (Some((last, parents)), value) => place(map, parents, last, value),
        (None, Value::Object(fields)) => map.extend(fields),
        (None, _) => {}
    }
}

/// Removes the field and its parents that become empty. Returns the removed value, or `None` if it
/// is absent. The root is never removed.
pub fn remove(map: &mut Map<String, Value>, path: &FieldPath) -> Option<Value> {
    remove_steps(map, path.steps())
}

/// Copies the fields that the source has to the same paths of the target.
///
/// Absent fields, and those with an intermediate value that is not an object, are skipped: a
/// malformed object must not stop its own handling.
pub fn cherry_pick(
    source: &Value,
    target: &mut Map<String, Value>,
    paths: &[FieldPath],
) -> Result<(), Error> {
    for path in paths.iter().filter(|path| !path.is_root()) {
        if let Some(value) = resolve_lenient(source, path) {
            ensure(target, path, value.clone())?;
        }
    }
    Ok(())
}

fn not_an_object(path: &FieldPath, depth: usize) -> Error {
    let parent = path.steps().iter().take(depth).cloned().collect();
    Error::NotAnObject {
        path: path.clone(),
        parent,
    }
}

/// Returns the map under the key, created or replaced if it is not an object.
pub(crate) fn object_at<'a>(
    map: &'a mut Map<String, Value>,
    key: &str,
) -> &'a mut Map<String, Value> {
    let slot = map.entry(key).or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut()
        .expect("it was made an object just above")
}

fn place(map: &mut Map<String, Value>, parents: &[Arc<str>], last: &Arc<str>, value: Value) {
    let parent = parents.iter().fold(map, |map, step| object_at(map, step));
    parent.insert(last.as_ref().to_owned(), value);
}

fn remove_steps(map: &mut Map<String, Value>, steps: &[Arc<str>]) -> Option<Value> {
    let (first, rest) = steps.split_first()?;
    if rest.is_empty() {
        return map.remove(&**first);
    }
    let inner = map.get_mut(&**first)?.as_object_mut()?;
    let removed = remove_steps(inner, rest);
    if inner.is_empty() {
        map.remove(&**first);
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        let Value::Object(map) = value else {
            panic!("not an object: {value}")
        };
        map
    }

    #[test]
    fn paths_are_parsed_and_formatted_with_dots() {
        let path = FieldPath::parse("spec.struct.field");
        assert_eq!(path, FieldPath::from_iter(["spec", "struct", "field"]));
        assert_eq!(path.to_string(), "spec.struct.field");
        assert_eq!(FieldPath::from("spec..x").steps().len(), 3);
        assert!(FieldPath::parse("").is_root() && FieldPath::root().is_root());
        assert_eq!(FieldPath::root().to_string(), "");
        assert_eq!(FieldPath::root().join("a.b").join("c").steps().len(), 2);
        assert_eq!(
            serde_json::to_value(path).unwrap(),
            json!(["spec", "struct", "field"])
        );
    }

    #[test]
    fn prefixes_are_compared_by_steps() {
        let path = FieldPath::parse("spec.field.sub");
        assert!(path.starts_with(&"spec.field".into()) && path.starts_with(&FieldPath::root()));
        assert!(path.starts_with(&path) && !path.starts_with(&"spec.fie".into()));
        assert_eq!(path.strip_prefix(&"spec".into()), Some("field.sub".into()));
        assert_eq!(path.strip_prefix(&path), Some(FieldPath::root()));
        assert_eq!(path.strip_prefix(&"status".into()), None);
    }

    #[test]
    fn resolving_distinguishes_missing_from_unreachable() {
        let value = json!({"spec": {"a": {"b": 1}, "s": "text", "n": null}});
        assert_eq!(resolve(&value, &"spec.a.b".into()), Ok(Some(&json!(1))));
        assert_eq!(resolve(&value, &FieldPath::root()), Ok(Some(&value)));
        assert_eq!(resolve(&value, &"spec.x.y".into()), Ok(None));
        assert_eq!(resolve(&value, &"spec.n".into()), Ok(Some(&Value::Null)));
        for unreachable in ["spec.s.x", "spec.n.x", "spec.a.b.c"] {
            assert!(resolve(&value, &unreachable.into()).is_err());
            assert_eq!(resolve_lenient(&value, &unreachable.into()), None);
        }
        let error = resolve(&value, &"spec.s.x".into()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the field spec.s.x cannot be reached: spec.s is not an object"
        );
        assert_eq!(resolve_lenient(&value, &"spec.a.b".into()), Some(&json!(1)));
        assert_eq!(resolve_in(&map(value), &"spec.a.b".into()), Some(&json!(1)));
    }

    #[test]
    fn setting_creates_missing_parents_or_changes_nothing() {
        let mut target = map(json!({"spec": {"s": "text", "n": null}}));
        ensure(&mut target, &"status.a.b".into(), json!(1)).unwrap();
        ensure(&mut target, &"spec.s".into(), json!(2)).unwrap();
        let expected = map(json!({"spec": {"s": 2, "n": null}, "status": {"a": {"b": 1}}}));
        assert_eq!(target, expected);
        for unreachable in ["spec.s.x", "spec.s.x.y", "spec.n.x"] {
            assert!(ensure(&mut target, &unreachable.into(), json!(3)).is_err());
        }
        assert_eq!(
            ensure(&mut target, &FieldPath::root(), json!({})),
            Err(Error::Root)
        );
        assert_eq!(target, expected);
        overwrite(&mut target, &"spec.s.x".into(), json!(3));
        assert_eq!(target["spec"], json!({"s": {"x": 3}, "n": null}));
    }

    #[test]
    fn removing_removes_empty_parents() {
        let source = map(json!({"a": {"b": {"c": 1}}, "x": {"y": {"z": 1}, "w": 2}, "e": {}}));
        let check = |path: &str, expected: Value| {
            let mut target = source.clone();
            remove(&mut target, &path.into());
            assert_eq!(Value::Object(target), expected, "{path}");
        };
        let whole = Value::Object(source.clone());
        check("a.b.c", json!({"x": {"y": {"z": 1}, "w": 2}, "e": {}}));
        check(
            "x.y.z",
            json!({"a": {"b": {"c": 1}}, "x": {"w": 2}, "e": {}}),
        );
        check(
            "e.any.thing",
            json!({"a": {"b": {"c": 1}}, "x": {"y": {"z": 1}, "w": 2}}),
        );
        check("a.b.c.d", whole.clone());
        check("none.at.all", whole.clone());
        check("", whole);
    }

    #[test]
    fn cherry_picking_skips_absent_fields() {
        let source = json!({"a": {"b": 1, "c": 2}, "s": "text"});
        let mut target = map(json!({"old": true}));
        let paths = ["a.b", "s.x", "none", ""].map(FieldPath::from);
        cherry_pick(&source, &mut target, &paths).unwrap();
        assert_eq!(Value::Object(target), json!({"old": true, "a": {"b": 1}}));
    }
}
