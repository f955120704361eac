//! Validation of single built-in kinds beyond their types: frequent errors. Most deeper rules are
//! not checked.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::job_rules;
use crate::field_error::{FieldError, FieldErrorKind};
use crate::kinds::Kind;
use crate::object::meta;

/// Maximum size of the data of a ConfigMap or Secret, in bytes.
const MOST_DATA_BYTES: usize = 1024 * 1024;

/// Finalizers without a domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Returns the errors of an object of a built-in kind.
pub(crate) fn problems(kind: &Kind, object: &Value) -> Vec<FieldError> {
    match (&*kind.group, &*kind.plural) {
        ("", "configmaps") => config_map(object),
        ("", "secrets") => secret(object),
        ("", "namespaces") => namespace(object),
        ("", "events") => event(object, "involvedObject"),
        ("events.k8s.io", "events") => event(object, "regarding"),
        _ => Vec::new(),
    }
}

fn entries<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object
        .get(field)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

fn config_map(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut bytes = 0;
    for (key, value) in entries(object, "data") {
        errors.extend(key_problems("data", key));
        if object
            .get("binaryData")
            .and_then(|binary| binary.get(key))
            .is_some()
        {
            let why = "duplicate of key present in binaryData";
            errors.push(FieldError::invalid(
                format!("data[{key}]"),
                &json!(key),
                why,
            ));
        }
        bytes += value.as_str().unwrap_or_default().len();
    }
    for (key, value) in entries(object, "binaryData") {
        errors.extend(key_problems("binaryData", key));
        bytes += decoded_length(value);
    }
    if bytes > MOST_DATA_BYTES {
        errors.push(too_long(""));
    }
    errors
}

fn secret(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut bytes = 0;
    for (key, value) in entries(object, "data") {
        errors.extend(key_problems("data", key));
        bytes += decoded_length(value);
    }
    if bytes > MOST_DATA_BYTES {
        errors.push(too_long("data"));
    }
    let required: &[&str] = match object
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
    {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    for key in required {
        if object.get("data").and_then(|data| data.get(key)).is_none() {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    }
    errors
}

/// Checks the names of the finalizers in the spec.
fn namespace(object: &Value) -> Vec<FieldError> {
    let finalizers = object.pointer("/spec/finalizers").and_then(Value::as_array);
    let finalizers = finalizers.into_iter().flatten();
    finalizers
        .filter(|finalizer| {
            let name = finalizer.as_str().unwrap_or_default();
            !name.contains('/') && !STANDARD_FINALIZERS.contains(&name)
        })
        .map(|finalizer| {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            FieldError::invalid("spec.finalizers", finalizer, why)
        })
        .collect()
}

/// Checks that an event is in the namespace of its object, or in `default` for cluster-scoped
/// objects.
fn event(object: &Value, about: &str) -> Vec<FieldError> {
    let namespace = meta::namespace(object).unwrap_or_default();
    let other = object.get(about).and_then(|about| about.get("namespace"));
    let other = other.and_then(Value::as_str).unwrap_or_default();
    if other == namespace || (other.is_empty() && namespace == "default") {
        return Vec::new();
    }
    let field = "involvedObject.namespace";
    vec![FieldError::invalid(
        field,
        &json!(other),
        "does not match event.namespace",
    )]
}

fn key_problems(field: &str, key: &str) -> Vec<FieldError> {
    static KEY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[-._a-zA-Z0-9]+$").ok());
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push("must be no more than 253 bytes".to_owned());
    }
    if !KEY.as_ref().is_some_and(|pattern| pattern.is_match(key)) {
        problems.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." | ".." => problems.push(format!("must not be '{key}'")),
        _ if key.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
        .into_iter()
        .map(|problem| FieldError::invalid(format!("{field}[{key}]"), &json!(key), &problem))
        .collect()
}

/// Returns the number of bytes encoded by a Base64 string.
fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default().trim_end_matches('=');
    text.len() / 4 * 3 + (text.len() % 4).saturating_sub(1)
}

fn too_long(field: &str) -> FieldError {
    let text = format!("Too long: may not be more than {MOST_DATA_BYTES} bytes");
    FieldError::new(FieldErrorKind::TooLong, field, text)
}

/// Returns the errors of changes of immutable fields of built-in kinds.
pub(crate) fn update_problems(kind: &Kind, object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut keep = |field: &str, pointer: &str| {
        if object.pointer(pointer) != old.pointer(pointer) {
            let value = object.pointer(pointer).cloned().unwrap_or_default();
            errors.push(FieldError::invalid(field, &value, "field is immutable"));
        }
    };
    match (&*kind.group, &*kind.plural) {
        ("", "secrets") => keep("type", "/type"),
        ("apps", "deployments" | "daemonsets" | "replicasets") => {
            keep("spec.selector", "/spec/selector");
        }
        ("batch", "jobs") => errors.extend(job_rules::update_problems(object, old)),
        ("discovery.k8s.io", "endpointslices") => keep("addressType", "/addressType"),
        ("storage.k8s.io", "storageclasses") => keep("provisioner", "/provisioner"),
        ("scheduling.k8s.io", "priorityclasses") => {
            keep("preemptionPolicy", "/preemptionPolicy");
            if object.get("value") != old.get("value") {
                let why = "may not be changed in an update.";
                errors.push(FieldError::forbidden("value", why));
            }
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            keep("roleRef", "/roleRef");
        }
        _ => {}
    }
    errors.extend(frozen_spec(kind, object, old));
    if matches!(
        (&*kind.group, &*kind.plural),
        ("", "secrets" | "configmaps")
    ) && old.get("immutable") == Some(&json!(true))
    {
        if object.get("immutable") != old.get("immutable") {
            errors.push(FieldError::forbidden(
                "immutable",
                "field is immutable when `immutable` is set",
            ));
        }
        for field in ["data", "binaryData"] {
            if object.get(field) != old.get(field) {
                errors.push(FieldError::forbidden(
                    field,
                    "field is immutable when `immutable` is set",
                ));
            }
        }
    }
    errors
}

/// Rejects changes of specs of which only a few fields are mutable.
fn frozen_spec(kind: &Kind, object: &Value, old: &Value) -> Option<FieldError> {
    let (free, text): (&[&str], &str) = match (&*kind.group, &*kind.plural) {
        ("", "pods") => (
            &["activeDeadlineSeconds", "tolerations"],
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        ),
        // Nothing binds claims here, so that resizing is not limited to bound ones.
        ("", "persistentvolumeclaims") => (
            &["resources", "volumeAttributesClassName", "volumeName"],
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ),
        ("apps", "statefulsets") => (
            &[
                "replicas",
                "ordinals",
                "template",
                "updateStrategy",
                "revisionHistoryLimit",
                "persistentVolumeClaimRetentionPolicy",
                "minReadySeconds",
            ],
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ),
        ("", "services") => {
            let address = |object: &Value| object.pointer("/spec/clusterIP").cloned();
            return match (address(old), address(object)) {
                (Some(was), Some(is)) if was != is && was != "" && is != "" => {
                    let why = "may not change once set";
                    Some(FieldError::invalid("spec.clusterIPs[0]", &json!([is]), why))
                }
                _ => None,
            };
        }
        _ => return None,
    };
    let period = |pod: &Value| pod.pointer("/spec/terminationGracePeriodSeconds")?.as_i64();
    let frozen = |object: &Value| -> Value {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        if let Some(map) = spec.as_object_mut() {
            for field in free {
                map.remove(*field);
            }
            if &*kind.plural == "pods" {
                forget_images(map);
                if period(old).is_some_and(i64::is_negative) {
                    map.remove("terminationGracePeriodSeconds");
                }
            }
        }
        spec
    };
    (frozen(object) != frozen(old)).then(|| FieldError::forbidden("spec", text))
}

fn forget_images(spec: &mut serde_json::Map<String, Value>) {
    for field in ["containers", "initContainers"] {
        for container in spec
            .get_mut(field)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(container) = container.as_object_mut() {
                container.remove("image");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_keys_are_file_names() {
        for good in ["a", "a.b", ".a", "A_b-c"] {
            assert!(key_problems("data", good).is_empty(), "{good}");
        }
        for bad in ["", "a b", "..", ".", "..a", "a/b", &"a".repeat(254)] {
            assert!(!key_problems("data", bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn base64_length_is_that_of_the_content() {
        for (text, length) in [
            ("", 0),
            ("eA==", 1),
            ("eHk=", 2),
            ("eHl6", 3),
            ("eHl6eA==", 4),
        ] {
            assert_eq!(decoded_length(&json!(text)), length, "{text}");
        }
    }
}
