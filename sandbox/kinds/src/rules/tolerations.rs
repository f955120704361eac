//! Validation of the tolerations of a pod.

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::object::label_rules::{label_key_errors, label_value_errors};
use serde_json::Value;

use super::{field, one_of, text};

/// Checks a toleration. The operators `Lt` and `Gt` require a feature that is disabled by default.
pub(super) fn check(toleration: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (key, value) = (text(toleration, "key"), text(toleration, "value"));
    let at = format!("{path}.operator");
    let operator = text(toleration, "operator");
    if key.is_empty() {
        if operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(&*at, &Value::from(operator), why));
        }
    } else {
        for problem in label_key_errors(key) {
            let at = format!("{path}.key");
            errors.push(FieldError::invalid(at, &Value::from(key), &problem));
        }
    }
    if !field(toleration, "tolerationSeconds").is_null()
        && text(toleration, "effect") != "NoExecute"
    {
        let effect = Value::from(text(toleration, "effect"));
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(format!("{path}.effect"), &effect, why));
    }
    match operator {
        "" | "Equal" => {
            let problems = label_value_errors(value);
            if !problems.is_empty() {
                let why = problems.join(";");
                errors.push(FieldError::invalid(&*at, &Value::from(value), &why));
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => {
            let why = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(&*at, &Value::from(value), why));
        }
        _ => {
            let supported: &[&str] = match operator {
                "Lt" | "Gt" => &["Equal", "Exists", "Lt", "Gt"],
                _ => &["Equal", "Exists"],
            };
            let operator = Value::from(operator);
            errors.push(FieldError::not_supported(&*at, &operator, supported));
        }
    }
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    one_of(toleration, "effect", path, &effects, errors);
}
