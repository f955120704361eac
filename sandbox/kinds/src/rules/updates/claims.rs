//! Changes of volume claims.

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::typing::quantity;
use serde_json::{Value, json};

use super::{Change, IMMUTABLE, field, text};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Checks the change of a claim. Its volume and its class can be set once; a bound claim can also
/// request another size or another class of attributes.
pub(crate) fn check(change: &mut Change<'_>) {
    let (new, old) = (field(change.new, "spec"), field(change.old, "spec"));
    let (mut is, mut was) = (new.clone(), old.clone());
    if text(old, "volumeName").is_empty() {
        copy(&mut was, new, "volumeName");
    }
    storage_class(change, &mut is);
    if text(field(change.new, "status"), "phase") == "Bound" {
        let size = old.pointer("/resources/requests/storage");
        let requests = is.pointer_mut("/resources/requests");
        if let (Some(Value::Object(requests)), Some(size)) = (requests, size) {
            requests.insert("storage".to_owned(), size.clone());
        }
        copy(&mut is, old, "volumeAttributesClassName");
    }
    if is != was {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        change.errors.push(FieldError::forbidden("spec", why));
    }
    size(change);
    change.keep("/spec/volumeMode", "volumeMode");
    attributes_class(change);
}

/// Checks the class, which may be set if there was none, or if it only was an annotation. Removes it
/// from the new specification then.
fn storage_class(change: &mut Change<'_>, spec: &mut Value) {
    let class = |object: &'_ Value| object.pointer("/spec/storageClassName").cloned();
    let annotation = |object: &Value| {
        let annotations = object.pointer("/metadata/annotations")?;
        annotations.get(CLASS_ANNOTATION).cloned()
    };
    let (is, was) = (class(change.new), class(change.old));
    let (annotated, before) = (annotation(change.new), annotation(change.old));
    let is_set = was.is_none() && is.is_some();
    let follows = is_set && before.is_some() && is == before;
    if !(follows && (annotated.is_none() || annotated == before)) {
        if annotated.clone().unwrap_or(json!("")) != before.clone().unwrap_or(json!("")) {
            let at = format!("metadata.annotations.{CLASS_ANNOTATION}");
            let value = annotated.unwrap_or(json!(""));
            let error = FieldError::invalid(at, &value, IMMUTABLE);
            change.errors.push(error);
        }
        if !(is_set && (before.is_none() || follows)) {
            return;
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("storageClassName");
    }
}

/// Rejects a size that is less than before and not above the capacity of the volume.
fn size(change: &mut Change<'_>) {
    let amount = |object: &Value, pointer: &str| {
        let amount = object.pointer(pointer).and_then(Value::as_str);
        amount.and_then(quantity::nanos).unwrap_or_default()
    };
    let requested = "/spec/resources/requests/storage";
    let is = amount(change.new, requested);
    let capacity = amount(change.old, "/status/capacity/storage");
    if is < amount(change.old, requested) && is <= capacity {
        let why = "field can not be less than status.capacity";
        let error = FieldError::forbidden("spec.resources.requests.storage", why);
        change.errors.push(error);
    }
}

/// Rejects the removal of the class of attributes once one is in effect.
fn attributes_class(change: &mut Change<'_>) {
    let current = change
        .old
        .pointer("/status/currentVolumeAttributesClassName");
    let class = "/spec/volumeAttributesClassName";
    let is = change.new.pointer(class);
    if current.is_none() || is == change.old.pointer(class) {
        return;
    }
    let what = match is {
        None => "nil",
        Some(name) if name == "" => "empty string",
        Some(_) => return,
    };
    let why = format!(
        "update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
    );
    let error = FieldError::forbidden("spec.volumeAttributesClassName", &why);
    change.errors.push(error);
}

fn copy(to: &mut Value, from: &Value, name: &str) {
    if let Some(to) = to.as_object_mut() {
        match from.get(name) {
            Some(value) => to.insert(name.to_owned(), value.clone()),
            None => to.remove(name),
        };
    }
}
