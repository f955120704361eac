//! Identities of objects, paths of fields, and differences between values.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The identity of an object: its resource, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// The plural name of the kind, with the group of a named group: `pods`, `deployments.apps`.
    pub resource: String,
    /// The namespace; `None` for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name, or a pattern with `*` for the random part of a name.
    pub name: String,
}

impl ObjectKey {
    /// Returns the key of an object.
    pub fn new(group: &str, plural: &str, namespace: Option<&str>, name: &str) -> Self {
        Self {
            resource: resource_name(group, plural),
            namespace: namespace.filter(|name| !name.is_empty()).map(str::to_owned),
            name: name.to_owned(),
        }
    }

    /// Returns the same key with another name.
    #[must_use]
    pub fn named(&self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self.clone()
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.resource)?;
        match self.namespace.as_deref() {
            None | Some("default") => {}
            Some(namespace) => write!(f, "{namespace}/")?,
        }
        f.write_str(&self.name)
    }
}

/// Returns the plural name with the group, as kubectl accepts it.
pub fn resource_name(group: &str, plural: &str) -> String {
    if group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{group}")
    }
}

/// Returns `true` for resources that say nothing about the state of an application: events, records of
/// elections and peers, and reviews, which are not stored.
pub fn is_housekeeping(resource: &str) -> bool {
    let group = resource.split_once('.').map_or("", |(_, group)| group);
    let is_review = matches!(group, "authentication.k8s.io" | "authorization.k8s.io");
    is_review
        || matches!(
            resource,
            "events"
                | "events.events.k8s.io"
                | "leases.coordination.k8s.io"
                | "kopfpeerings.kopf.dev"
                | "clusterkopfpeerings.kopf.dev"
                | "kopfpeerings.zalando.org"
                | "clusterkopfpeerings.zalando.org"
        )
}

/// The resource of elections.
pub const LEASES: &str = "leases.coordination.k8s.io";

/// The label that another client adds to an object. It never counts as a difference.
pub const INTERFERENCE_LABEL: &str = "explore.kopf.dev/interference";

/// One step of a path into a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// A field of a map.
    Field(String),
    /// An item of a list.
    Index(usize),
    /// Any field or item.
    Any,
}

/// A path of fields: `spec.template`, `status.conditions[0].reason`, `data.*`,
/// `metadata.annotations["example.com/time"]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FieldPath(pub Vec<Segment>);

/// A path cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid path {text:?}: {why}; expected fields such as status.conditions[*].reason or metadata.annotations[\"a.b/c\"]"
)]
pub struct InvalidPath {
    text: String,
    why: &'static str,
}

impl FieldPath {
    /// Parses a path.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        let invalid = |why| InvalidPath {
            text: text.to_owned(),
            why,
        };
        let mut segments = Vec::new();
        let mut rest = text.trim().trim_start_matches('.');
        if rest.is_empty() {
            return Err(invalid("it is empty"));
        }
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix("[\"") {
                let (name, tail) = inner
                    .split_once("\"]")
                    .ok_or_else(|| invalid("a quoted field is not closed"))?;
                segments.push(Segment::Field(name.to_owned()));
                rest = tail;
            } else if let Some(inner) = rest.strip_prefix('[') {
                let (index, tail) = inner
                    .split_once(']')
                    .ok_or_else(|| invalid("a bracket is not closed"))?;
                segments.push(match index {
                    "*" => Segment::Any,
                    index => Segment::Index(
                        index
                            .parse()
                            .map_err(|_| invalid("an index is not a number"))?,
                    ),
                });
                rest = tail;
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                let (name, tail) = rest.split_at(end);
                match name {
                    "" => return Err(invalid("a field is empty")),
                    "*" => segments.push(Segment::Any),
                    name => segments.push(Segment::Field(name.to_owned())),
                }
                rest = tail;
            }
            rest = rest.strip_prefix('.').unwrap_or(rest);
        }
        Ok(Self(segments))
    }

    /// Returns the path of a field below this one.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        self.with(Segment::Field(name.to_owned()))
    }

    /// Returns the path of an item below this one.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
    }

    /// Returns the same path for any item of the lists on it.
    #[must_use]
    pub fn any_item(&self) -> Self {
        let any = |segment: &Segment| match segment {
            Segment::Index(_) => Segment::Any,
            other => other.clone(),
        };
        Self(self.0.iter().map(any).collect())
    }

    /// Removes the values at this path.
    pub fn remove_from(&self, value: &mut Value) {
        remove(value, &self.0);
    }

    /// Returns the value at this path, if it has no wildcards.
    pub fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0
            .iter()
            .try_fold(value, |value, segment| match segment {
                Segment::Field(name) => value.get(name),
                Segment::Index(index) => value.get(index),
                Segment::Any => None,
            })
    }

    /// Sets or, with `None`, removes the value at this path. Missing maps are created; missing
    /// items of lists are not.
    pub fn set(&self, value: &mut Value, new: Option<Value>) {
        let Some((last, parents)) = self.0.split_last() else {
            return;
        };
        let mut place = value;
        for segment in parents {
            place = match segment {
                Segment::Field(name) => {
                    if !place.is_object() {
                        *place = Value::Object(serde_json::Map::new());
                    }
                    match place.as_object_mut() {
                        Some(map) => map.entry(name.clone()).or_insert(Value::Null),
                        None => return,
                    }
                }
                Segment::Index(index) => match place.get_mut(*index) {
                    Some(item) => item,
                    None => return,
                },
                Segment::Any => return,
            };
        }
        match (last, new) {
            (Segment::Field(name), Some(new)) => {
                if !place.is_object() {
                    *place = Value::Object(serde_json::Map::new());
                }
                if let Some(map) = place.as_object_mut() {
                    map.insert(name.clone(), new);
                }
            }
            (Segment::Index(index), Some(new)) => {
                if let Some(item) = place.get_mut(*index) {
                    *item = new;
                }
            }
            (segment, None) => remove(place, std::slice::from_ref(segment)),
            (Segment::Any, Some(_)) => {}
        }
    }
}

fn remove(value: &mut Value, path: &[Segment]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    match (first, value) {
        (Segment::Field(name), Value::Object(map)) if rest.is_empty() => {
            map.remove(name);
        }
        (Segment::Field(name), Value::Object(map)) => {
            if let Some(inner) = map.get_mut(name) {
                remove(inner, rest);
            }
        }
        (Segment::Any, Value::Object(map)) if rest.is_empty() => map.clear(),
        (Segment::Any, Value::Object(map)) => {
            for inner in map.values_mut() {
                remove(inner, rest);
            }
        }
        (Segment::Index(index), Value::Array(list)) if *index < list.len() => {
            if rest.is_empty() {
                list.remove(*index);
            } else if let Some(inner) = list.get_mut(*index) {
                remove(inner, rest);
            }
        }
        (Segment::Any, Value::Array(list)) if rest.is_empty() => list.clear(),
        (Segment::Any, Value::Array(list)) => {
            for inner in list {
                remove(inner, rest);
            }
        }
        _ => {}
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Field(name) if name.contains(['.', '[', '/', '*']) => {
                    write!(f, "[\"{name}\"]")?;
                }
                Segment::Field(name) if index == 0 => f.write_str(name)?,
                Segment::Field(name) => write!(f, ".{name}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Any => f.write_str("[*]")?,
            }
        }
        Ok(())
    }
}

impl Serialize for FieldPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FieldPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// A field with different values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FieldDifference {
    /// The path of the field.
    pub path: FieldPath,
    /// The value in the reference; `None` if the field is absent there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Value>,
    /// The value that was found; `None` if the field is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Value>,
}

/// Returns the fields that differ, at the deepest level at which both values are of one type.
///
/// ```
/// use kopf_explore::object::field_differences;
/// use serde_json::json;
///
/// let differences = field_differences(&json!({"spec": {"size": 1}}), &json!({"spec": {"size": 2}}));
/// assert_eq!(differences[0].path.to_string(), "spec.size");
/// ```
pub fn field_differences(expected: &Value, found: &Value) -> Vec<FieldDifference> {
    let mut differences = Vec::new();
    compare(&FieldPath::default(), expected, found, &mut differences);
    differences
}

fn compare(path: &FieldPath, expected: &Value, found: &Value, to: &mut Vec<FieldDifference>) {
    match (expected, found) {
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                let path = path.field(name);
                match (left.get(name), right.get(name)) {
                    (Some(left), Some(right)) => compare(&path, left, right, to),
                    (left, right) => to.push(FieldDifference {
                        path,
                        expected: left.cloned(),
                        found: right.cloned(),
                    }),
                }
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                compare(&path.index(index), left, right, to);
            }
        }
        (left, right) if left != right => to.push(FieldDifference {
            path: path.clone(),
            expected: Some(left.clone()),
            found: Some(right.clone()),
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_parsed_and_printed() {
        for text in [
            "spec.size",
            "status.conditions[0].reason",
            "metadata.annotations[\"example.com/time\"]",
            "items[*].name",
        ] {
            assert_eq!(FieldPath::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "a..b", "a[", "a[x]", "a[\"b"] {
            assert!(FieldPath::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_removed_by_wildcards() {
        let mut value = json!({"a": [{"x": 1, "y": 2}, {"x": 3}], "b": {"c": 1, "d": 2}});
        FieldPath::parse("a[*].x").unwrap().remove_from(&mut value);
        FieldPath::parse("b.*").unwrap().remove_from(&mut value);
        assert_eq!(value, json!({"a": [{"y": 2}, {}], "b": {}}));
    }

    #[test]
    fn values_are_set_in_maps_that_do_not_exist() {
        let mut value = json!({"spec": {"list": [{"a": 1}]}});
        let set = |path: &str, value: &mut Value, new| {
            FieldPath::parse(path).unwrap().set(value, new);
        };
        set("spec.new.deep", &mut value, Some(json!(1)));
        set("spec.list[0].a", &mut value, Some(json!(2)));
        assert_eq!(
            value,
            json!({"spec": {"list": [{"a": 2}], "new": {"deep": 1}}})
        );
        set("spec.list", &mut value, None);
        set("spec.new.deep", &mut value, None);
        assert_eq!(value, json!({"spec": {"new": {}}}));
    }

    #[test]
    fn lists_of_different_lengths_differ_as_a_whole() {
        let differences = field_differences(&json!({"a": [1]}), &json!({"a": [1, 2]}));
        assert_eq!(differences.len(), 1);
        assert_eq!(differences[0].path.to_string(), "a");
    }

    #[test]
    fn reviews_are_housekeeping_and_roles_are_not() {
        assert!(is_housekeeping(
            "selfsubjectrulesreviews.authorization.k8s.io"
        ));
        assert!(!is_housekeeping("roles.rbac.authorization.k8s.io"));
    }
}
