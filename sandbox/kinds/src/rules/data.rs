//! Validation of single built-in kinds beyond their types: frequent errors. Most deeper rules are
//! not checked.

use std::sync::LazyLock;

use kopf_sandbox_schema::field_error::{FieldError, FieldErrorKind};
use kopf_sandbox_schema::object::label_rules::label_key_errors;
use kopf_sandbox_schema::object::meta;
use regex::Regex;
use serde_json::{Value, json};

/// Maximum size of the data of a ConfigMap or Secret, in bytes.
const MOST_DATA_BYTES: usize = 1024 * 1024;

/// Maximum length of the note of an event, and of its other texts, in bytes.
const LONGEST_NOTE: usize = 1024;
const LONGEST_WORD: usize = 128;

/// Finalizers without a domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

fn entries<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object
        .get(field)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

pub(crate) fn config_map(object: &Value, errors: &mut Vec<FieldError>) {
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
}

pub(crate) fn secret(object: &Value, errors: &mut Vec<FieldError>) {
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
}

/// Checks the names of the finalizers in the spec.
pub(crate) fn namespace(object: &Value, errors: &mut Vec<FieldError>) {
    let finalizers = object.pointer("/spec/finalizers").and_then(Value::as_array);
    for finalizer in finalizers.into_iter().flatten() {
        let name = finalizer.as_str().unwrap_or_default();
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid("spec.finalizers", finalizer, why));
        }
    }
}

/// Checks that an event is in the namespace of its object, or in `default` for cluster-scoped
/// objects. Events with a time of their own may be in another namespace, but describe more.
pub(crate) fn event(object: &Value, about: &str, errors: &mut Vec<FieldError>) {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let namespace = meta::namespace(object).unwrap_or_default();
    let other = object.get(about).and_then(|about| about.get("namespace"));
    let other = other.and_then(Value::as_str).unwrap_or_default();
    let has_time = !text("eventTime").is_empty();
    let fits = match (has_time, other) {
        (false, "") => namespace == "default",
        (false, _) => other == namespace,
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (true, _) => true,
    };
    if !fits {
        let why = "does not match event.namespace";
        let field = "involvedObject.namespace";
        errors.push(FieldError::invalid(field, &json!(other), why));
    }
    if has_time {
        let (controller, note) = match about {
            "involvedObject" => ("reportingComponent", "message"),
            _ => ("reportingController", "note"),
        };
        described(controller, text(controller), errors);
        for name in ["reportingInstance", "action", "reason"] {
            match text(name).len() {
                0 => errors.push(FieldError::required(name, "")),
                length if length > LONGEST_WORD => errors.push(too_wordy(name, LONGEST_WORD)),
                _ => {}
            }
        }
        if text(note).len() > LONGEST_NOTE {
            errors.push(too_wordy("message", LONGEST_NOTE));
        }
    }
}

/// Checks the name of the controller that reports an event.
fn described(field: &str, name: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
    }
    for problem in label_key_errors(name) {
        errors.push(FieldError::invalid(field, &json!(name), &problem));
    }
}

fn too_wordy(field: &str, most: usize) -> FieldError {
    let why = format!("can have at most {most} characters");
    FieldError::invalid(field, &json!(""), &why)
}

fn key_problems(field: &str, key: &str) -> Vec<FieldError> {
    static KEY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[-._a-zA-Z0-9]+$").ok());
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
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
