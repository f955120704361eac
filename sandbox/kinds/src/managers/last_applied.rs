//! The annotation of client-side apply, for objects that migrate to server-side apply.

use kopf_sandbox_schema::fields::{FieldSet, Typed, collect, compare};
use kopf_sandbox_schema::object::meta;
use serde_json::Value;

/// The manager name of `kubectl apply`. The annotation is used for no other manager.
pub(super) const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn annotation(object: &Value) -> Option<&str> {
    object
        .pointer("/metadata/annotations")?
        .get(ANNOTATION)?
        .as_str()
}

/// Returns the fields that were applied client-side and have not changed since; taking them over
/// does not conflict. `None` if the object has no usable annotation.
pub(super) fn allowed(live: Typed<'_>) -> Option<FieldSet> {
    let applied: Value = serde_json::from_str(annotation(live.value)?).ok()?;
    if applied.get("apiVersion") != live.value.get("apiVersion") {
        return None;
    }
    let set = collect(Typed {
        value: &applied,
        ..live
    });
    let changes = compare(live.schema, live.of, live.value, &applied);
    Some(
        set.difference(&changes.modified)
            .difference(&changes.added)
            .difference(&changes.removed),
    )
}

/// Updates the annotation of an object that has one.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
    }
    let text = format!("{config}\n");
    if let Some(annotations) = meta::metadata(object)
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    }
}
