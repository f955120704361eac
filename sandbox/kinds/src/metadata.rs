//! Validation of the metadata of objects.

use kopf_sandbox_schema::field_error::{FieldError, FieldErrorKind};
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::object::label_rules::{label_key_errors, label_value_errors};
use kopf_sandbox_schema::object::{meta, names};
use serde_json::{Value, json};

use crate::strategy::{NameRule, Strategy};

/// Maximum total size of keys and values of annotations, in bytes.
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

/// Returns the errors of the metadata of a new or changed object.
pub fn problems(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(prefix) = meta::text(object, "generateName") {
        for problem in name_problems(kind, prefix, true) {
            errors.push(FieldError::invalid(
                "metadata.generateName",
                &json!(prefix),
                &problem,
            ));
        }
    }
    let name = meta::name(object);
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        for problem in name_problems(kind, name, false) {
            errors.push(FieldError::invalid("metadata.name", &json!(name), &problem));
        }
    }
    if !kind.namespaced && meta::namespace(object).is_some() {
        errors.push(FieldError::forbidden(
            "metadata.namespace",
            "not allowed on this type",
        ));
    }
    label_problems(object, &mut errors);
    annotation_problems(object, &mut errors);
    owner_problems(object, &mut errors);
    finalizer_problems(kind, object, &mut errors);
    errors
}

/// Returns the errors of a name; with `prefix`, of a `generateName` without its suffix.
fn name_problems(kind: &Kind, name: &str, prefix: bool) -> Vec<String> {
    let masked;
    let name = if prefix && name.ends_with('-') {
        // A trailing dash is valid in a prefix.
        masked = format!("{}a", name.trim_end_matches('-'));
        &masked
    } else {
        name
    };
    match Strategy::of(kind).names {
        NameRule::Subdomain => names::subdomain(name),
        NameRule::Label => names::label(name),
        NameRule::PathSegment => names::path_segment(name),
        NameRule::Address => names::address(name),
    }
}

/// Returns the errors of the labels and annotations of an object.
pub fn text_problems(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    label_problems(object, &mut errors);
    annotation_problems(object, &mut errors);
    errors
}

fn label_problems(object: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in meta::labels(object)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        for problem in label_key_errors(key) {
            errors.push(FieldError::invalid(
                "metadata.labels",
                &json!(key),
                &problem,
            ));
        }
        let text = value.as_str().unwrap_or_default();
        for problem in label_value_errors(text) {
            errors.push(FieldError::invalid(
                "metadata.labels",
                &json!(text),
                &problem,
            ));
        }
    }
}

fn annotation_problems(object: &Value, errors: &mut Vec<FieldError>) {
    let annotations = object
        .pointer("/metadata/annotations")
        .and_then(Value::as_object);
    let mut bytes = 0;
    for (key, value) in annotations.into_iter().flatten() {
        // Upper case is valid in the prefix of an annotation key, unlike in that of a label key.
        for problem in label_key_errors(&key.to_lowercase()) {
            errors.push(FieldError::invalid(
                "metadata.annotations",
                &json!(key),
                &problem,
            ));
        }
        bytes += key.len() + value.as_str().unwrap_or_default().len();
    }
    if bytes > MOST_ANNOTATION_BYTES {
        errors.push(FieldError::new(
            FieldErrorKind::TooLong,
            "metadata.annotations",
            format!("Too long: may not be more than {MOST_ANNOTATION_BYTES} bytes"),
        ));
    }
}

fn owner_problems(object: &Value, errors: &mut Vec<FieldError>) {
    let field = |name: &str| format!("metadata.ownerReferences.{name}");
    for owner in meta::owner_references(object) {
        if owner.kind == "Event" && matches!(owner.group(), "" | "events.k8s.io") {
            let value = json!({
                "apiVersion": owner.api_version, "kind": owner.kind,
                "name": owner.name, "uid": owner.uid,
            });
            let (group, version) = owner
                .api_version
                .rsplit_once('/')
                .unwrap_or(("", &owner.api_version));
            let why = format!("{group}/{version}, Kind=Event is disallowed from being an owner");
            errors.push(FieldError::invalid(
                "metadata.ownerReferences",
                &value,
                &why,
            ));
        }
        if owner.api_version.is_empty() {
            errors.push(FieldError::invalid(
                field("apiVersion"),
                &json!(""),
                "version must not be empty",
            ));
        }
        for (name, value) in [
            ("kind", &owner.kind),
            ("name", &owner.name),
            ("uid", &owner.uid),
        ] {
            if value.is_empty() {
                errors.push(FieldError::invalid(
                    field(name),
                    &json!(""),
                    "must not be empty",
                ));
            }
        }
    }
    controller_problems(object, errors);
}

/// Rejects several owners that are controllers.
fn controller_problems(object: &Value, errors: &mut Vec<FieldError>) {
    let references = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let controllers: Vec<String> = references
        .into_iter()
        .flatten()
        .filter(|reference| reference.get("controller") == Some(&json!(true)))
        .map(|reference| {
            let text = |field: &str| {
                reference
                    .get(field)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            format!("{}/{}", text("kind"), text("name"))
        })
        .collect();
    if let [first, second, ..] = controllers.as_slice() {
        errors.push(FieldError::invalid(
            "metadata.ownerReferences",
            &json!(references),
            &format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
            ),
        ));
    }
}

fn finalizer_problems(kind: &Kind, object: &Value, errors: &mut Vec<FieldError>) {
    for (index, finalizer) in meta::finalizers(object).enumerate() {
        for problem in label_key_errors(finalizer) {
            errors.push(FieldError::invalid(
                "metadata.finalizers",
                &json!(finalizer),
                &problem,
            ));
        }
        let standard = ["orphan", "foregroundDeletion", "kubernetes"].contains(&finalizer);
        if Strategy::of(kind).qualified_finalizers && !standard && !finalizer.contains('/') {
            errors.push(FieldError::invalid(
                format!("metadata.finalizers[{index}]"),
                &json!(finalizer),
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    if meta::has_finalizer(object, "orphan") && meta::has_finalizer(object, "foregroundDeletion") {
        errors.push(FieldError::invalid(
            "metadata.finalizers",
            &object
                .pointer("/metadata/finalizers")
                .cloned()
                .unwrap_or_default(),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

/// Returns the errors of an update of the metadata.
pub fn update_problems(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if meta::is_terminating(old) {
        let added: Vec<&str> = meta::finalizers(new)
            .filter(|finalizer| !meta::has_finalizer(old, finalizer))
            .collect();
        if !added.is_empty() {
            let list = added
                .iter()
                .map(|name| format!("{name:?}"))
                .collect::<Vec<_>>()
                .join(", ");
            errors.push(FieldError::forbidden(
                "metadata.finalizers",
                &format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
                ),
            ));
        }
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
    ] {
        let (is, was) = (meta::text(new, field), meta::text(old, field));
        if is != was {
            errors.push(FieldError::invalid(
                format!("metadata.{field}"),
                &is.map_or(Value::Null, |text| json!(text)),
                "field is immutable",
            ));
        }
    }
    let grace = |object: &Value| {
        object
            .pointer("/metadata/deletionGracePeriodSeconds")
            .cloned()
    };
    if grace(new) != grace(old) {
        let value = grace(new).unwrap_or_default();
        let field = "metadata.deletionGracePeriodSeconds";
        errors.push(FieldError::invalid(field, &value, "field is immutable"));
    }
    errors
}

/// Returns the warnings of a real server about finalizers of custom resources.
pub fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    meta::finalizers(new)
        .filter(|finalizer| !finalizer.contains('/'))
        .filter(|finalizer| !["orphan", "foregroundDeletion", "kubernetes"].contains(finalizer))
        .filter(|finalizer| old.is_none_or(|old| !meta::has_finalizer(old, finalizer)))
        .map(|finalizer| {
            format!(
                "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(errors: &[FieldError]) -> Vec<&str> {
        errors.iter().map(|error| error.field.as_str()).collect()
    }

    #[test]
    fn terminating_object_rejects_new_finalizers() {
        let old = json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["a/b"]}});
        let mut new = old.clone();
        meta::add_finalizer(&mut new, "c/d");
        assert_eq!(
            fields(&update_problems(&new, &old)),
            ["metadata.finalizers"]
        );
        meta::remove_finalizer(&mut new, "c/d");
        meta::remove_finalizer(&mut new, "a/b");
        assert!(update_problems(&new, &old).is_empty());
    }

    #[test]
    fn identity_is_immutable() {
        let old = json!({"metadata": {"name": "a", "uid": "1"}});
        let new = json!({"metadata": {"name": "b", "uid": "2", "deletionTimestamp": "t"}});
        assert_eq!(
            fields(&update_problems(&new, &old)),
            [
                "metadata.name",
                "metadata.uid",
                "metadata.deletionTimestamp"
            ]
        );
    }
}
