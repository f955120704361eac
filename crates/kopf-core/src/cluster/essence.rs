//! The essence: the tracked part of an object.
//!
//! It is built on every event and compared with the diff-base. Fields that operators write
//! themselves (their state, their status) must not be in it: otherwise operators would react to
//! their own writes forever.

use serde_json::{Map, Value};

use crate::body::Body;
use crate::field::{self, FieldPath};
use crate::keys::marked_prefixes;

/// The annotation of `kubectl apply` with a copy of the object.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The error of building an essence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The body is not an object.
    #[error("the body is not an object")]
    NotAnObject,
    /// An extra field cannot be set in the essence.
    #[error("an extra field has no place in the essence")]
    Field(#[from] field::Error),
}

/// Copies the tracked part of a body.
///
/// 1. Everything but `apiVersion`, `kind`, `metadata` and `status`.
/// 2. `metadata.labels`, and `metadata.annotations` except for those of `kubectl apply` and those
///    of Kopf operators, ours and others'.
/// 3. The extra fields, at any path: those that handlers are registered for.
/// 4. No `metadata.managedFields`, no empty stanzas, and no ignored fields.
///
/// ```
/// use kopf_core::{body::Body, essence};
/// use serde_json::json;
///
/// let body = Body::new(json!({
///     "kind": "Thing", "metadata": {"name": "obj", "labels": {"a": "b"}},
///     "spec": {"field": 1}, "status": {"x": 2, "y": 3},
/// }));
/// let essence = essence::build(&body, &["status.x".into()], &[])?;
/// assert_eq!(essence, json!({
///     "metadata": {"labels": {"a": "b"}}, "spec": {"field": 1}, "status": {"x": 2},
/// }));
/// # Ok::<_, essence::Error>(())
/// ```
pub fn build(
    body: &Body,
    extra_fields: &[FieldPath],
    ignored: &[FieldPath],
) -> Result<Value, Error> {
    let whole = body.value().as_object().ok_or(Error::NotAnObject)?;
    let tracked = whole
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
    let mut essence: Map<String, Value> = tracked
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if let Some(metadata) = tracked_metadata(body.metadata()) {
        essence.insert("metadata".to_owned(), metadata);
    }
    field::cherry_pick(body.value(), &mut essence, extra_fields)?;
    // They change with every write, including own ones.
    if let Some(Value::Object(metadata)) = essence.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    drop_empty(&mut essence);
    for path in ignored {
        field::remove(&mut essence, path);
    }
    Ok(Value::Object(essence))
}

/// Returns the object with its tracked part replaced by an essence: to derive another essence from it.
///
/// Fields of `metadata` other than labels and annotations are kept, because they identify the object.
pub(crate) fn graft(body: &Body, essence: Value) -> Body {
    let Value::Object(essence) = essence else {
        return Body::new(essence);
    };
    let mut whole = Map::new();
    for key in ["apiVersion", "kind"] {
        if let Some(value) = body.value().get(key) {
            whole.insert(key.to_owned(), value.clone());
        }
    }
    let mut metadata = body.metadata().clone();
    metadata.remove("labels");
    metadata.remove("annotations");
    for (key, value) in essence {
        match (key.as_str(), value) {
            ("metadata", Value::Object(tracked)) => metadata.extend(tracked),
            (_, value) => drop(whole.insert(key, value)),
        }
    }
    whole.insert("metadata".to_owned(), Value::Object(metadata));
    Body::new(Value::Object(whole))
}

/// Removes `metadata.annotations`, `metadata.labels`, `metadata` and `status` if they are empty.
pub fn drop_empty_stanzas(essence: &mut Value) {
    if let Value::Object(map) = essence {
        drop_empty(map);
    }
}

/// Removes the annotations that match the predicate from an essence, and stanzas that become empty.
pub(crate) fn drop_annotations(essence: &mut Value, mut unwanted: impl FnMut(&str) -> bool) {
    drop_annotation_entries(essence, |key, _| unwanted(key));
}

/// Removes annotations by their names and values, and the stanzas that become empty.
pub(crate) fn drop_annotation_entries(
    essence: &mut Value,
    mut unwanted: impl FnMut(&str, &Value) -> bool,
) {
    let Value::Object(map) = essence else { return };
    let metadata = map.get_mut("metadata").and_then(Value::as_object_mut);
    let annotations = metadata.and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(Value::Object(annotations)) = annotations
        && annotations.iter().any(|(key, value)| unwanted(key, value))
    {
        annotations.retain(|key, value| !unwanted(key, value));
    }
    drop_empty(map);
}

fn tracked_metadata(metadata: &Map<String, Value>) -> Option<Value> {
    let mut tracked = Map::new();
    if let Some(labels) = metadata.get("labels") {
        tracked.insert("labels".to_owned(), labels.clone());
    }
    match metadata.get("annotations") {
        None => {}
        Some(Value::Object(annotations)) => {
            tracked.insert("annotations".to_owned(), tracked_annotations(annotations));
        }
        Some(other) => drop(tracked.insert("annotations".to_owned(), other.clone())),
    }
    (!tracked.is_empty()).then_some(Value::Object(tracked))
}

fn tracked_annotations(annotations: &Map<String, Value>) -> Value {
    let marked = marked_prefixes(annotations);
    let is_tracked = |key: &str| {
        key != LAST_APPLIED
            && !key
                .split_once('/')
                .is_some_and(|(prefix, _)| marked.contains(prefix))
    };
    let tracked = annotations.iter().filter(|(key, _)| is_tracked(key));
    Value::Object(
        tracked
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

fn drop_empty(map: &mut Map<String, Value>) {
    if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
        drop_if_empty(metadata, "annotations");
        drop_if_empty(metadata, "labels");
    }
    drop_if_empty(map, "metadata");
    drop_if_empty(map, "status");
}

fn drop_if_empty(map: &mut Map<String, Value>, key: &str) {
    let is_empty = match map.get(key) {
        Some(Value::Object(inner)) => inner.is_empty(),
        Some(value) => value.is_null(),
        None => false,
    };
    if is_empty {
        map.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn essence(body: Value, extra: &[&str], ignored: &[&str]) -> Value {
        let paths = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect::<Vec<_>>();
        build(&Body::new(body), &paths(extra), &paths(ignored)).unwrap()
    }

    #[test]
    fn essence_has_no_system_fields() {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "x", "uid": "u", "finalizers": ["f"], "generation": 1},
            "data": {"k": "v"}, "spec": null, "status": {"phase": "ready"},
        });
        assert_eq!(
            essence(body, &[], &[]),
            json!({"data": {"k": "v"}, "spec": null})
        );
        assert_eq!(essence(json!({}), &[], &[]), json!({}));
    }

    #[test]
    fn essence_has_no_managed_fields() {
        let body = json!({"metadata": {"name": "x", "managedFields": [{"f:x": {}}]}});
        assert_eq!(essence(body.clone(), &[], &[]), json!({}));
        let expected = json!({"metadata": {"name": "x"}});
        assert_eq!(essence(body.clone(), &["metadata"], &[]), expected);
        assert_eq!(essence(body, &["metadata.managedFields"], &[]), json!({}));
    }

    #[test]
    fn essence_has_no_annotations_of_operators_and_kubectl() {
        let body = json!({"metadata": {"labels": {}, "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "kubectl.kubernetes.io/restartedAt": "now",
            "kopf.zalando.org/last-handled-configuration": "{}",
            "other.kopf.zalando.org/x": "1",
            "marked.example/kopf-managed": "yes", "marked.example/progress": "1",
            "marked.example.org/x": "1", "plain": "1",
        }}});
        let expected = json!({"metadata": {"annotations": {
            "kubectl.kubernetes.io/restartedAt": "now", "marked.example.org/x": "1", "plain": "1",
        }}});
        assert_eq!(essence(body, &[], &[]), expected);
    }

    #[test]
    fn empty_stanzas_are_dropped() {
        let only_ours = json!({"metadata": {"annotations": {"kopf.zalando.org/x": "1"}}});
        assert_eq!(essence(only_ours, &[], &[]), json!({}));
        let empty = json!({"metadata": {"labels": {}, "annotations": null}, "status": {}});
        assert_eq!(essence(empty, &["status"], &[]), json!({}));
        let kept = json!({"spec": {}, "data": {}});
        assert_eq!(essence(kept.clone(), &[], &[]), kept);
    }

    #[test]
    fn extra_fields_are_included() {
        let body = json!({
            "metadata": {"annotations": {"kopf.zalando.org/x": "1"}, "finalizers": ["f"]},
            "status": {"x": {"y": 1}, "z": 2}, "spec": "text",
        });
        assert_eq!(
            essence(
                body,
                &[
                    "status.x",
                    "metadata.annotations",
                    "status.none",
                    "spec.x.y"
                ],
                &[]
            ),
            json!({
                "metadata": {"annotations": {"kopf.zalando.org/x": "1"}},
                "status": {"x": {"y": 1}}, "spec": "text",
            })
        );
    }

    #[test]
    fn ignored_fields_are_removed_with_empty_parents() {
        let body = json!({"spec": {"a": {"b": 1}, "c": 2, "s": "text"}});
        let ignored = ["spec.a.b", "spec.none.x", "spec.s.x", ""];
        assert_eq!(
            essence(body, &[], &ignored),
            json!({"spec": {"c": 2, "s": "text"}})
        );
        assert_eq!(
            essence(json!({"spec": {"a": 1}}), &[], &["spec.a"]),
            json!({})
        );
    }

    #[test]
    fn malformed_input_never_panics() {
        assert_eq!(
            build(&Body::new(json!([])), &[], &[]),
            Err(Error::NotAnObject)
        );
        let body = json!({"metadata": {"labels": "x", "annotations": [1]}});
        assert_eq!(
            essence(body.clone(), &["metadata.labels.a"], &["metadata.labels.a"]),
            body
        );
        assert_eq!(essence(json!({"metadata": 1}), &[], &[]), json!({}));
        let mut odd = json!([1]);
        drop_empty_stanzas(&mut odd);
        drop_annotations(&mut odd, |_| true);
        assert_eq!(odd, json!([1]));
    }
}
