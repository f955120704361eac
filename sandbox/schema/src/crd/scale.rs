//! The scale subresource: validation of its paths, and of the values at these paths.

use serde_json::Value;

use super::columns::json_path_problem;
use crate::field_error::FieldError;
use crate::kind::ScalePaths;

/// Validates `subresources`.
pub(super) fn validate(subresources: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(scale) = subresources.get("scale").filter(|scale| !scale.is_null()) else {
        return errors;
    };
    let text = |key: &str| scale.get(key).and_then(Value::as_str).unwrap_or_default();
    let below = |value: &str, roots: &[&str]| roots.iter().any(|root| value.starts_with(root));
    let checks: [(&str, &[&str], &str); 3] = [
        (
            "specReplicasPath",
            &[".spec."],
            "should be a json path under .spec",
        ),
        (
            "statusReplicasPath",
            &[".status."],
            "should be a json path under .status",
        ),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
        ),
    ];
    for (key, roots, detail) in checks {
        let at = format!("{path}.scale.{key}");
        let value = text(key);
        if value.is_empty() {
            if key != "labelSelectorPath" {
                errors.push(FieldError::required(at, ""));
            }
        } else if let Some(problem) = json_path_problem(value) {
            errors.push(FieldError::invalid(at, &value.into(), problem));
        } else if !below(value, roots) {
            errors.push(FieldError::invalid(at, &value.into(), detail));
        }
    }
    errors
}

/// Validates the numbers of replicas in an object of a kind with this subresource.
///
/// Checked at every write, in addition to the schema. `status_only` is for writes to the status.
pub fn validate_scale(paths: &ScalePaths, object: &Value, status_only: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !status_only {
        replicas(object, &paths.spec_replicas, &mut errors);
    }
    replicas(object, &paths.status_replicas, &mut errors);
    if let Some(path) = paths.label_selector.as_deref()
        && let Some(problem) = mistyped(object, path, Value::is_string, "string")
    {
        errors.push(FieldError::invalid(path, &"".into(), &problem));
    }
    errors
}

fn replicas(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(problem) = mistyped(object, path, Value::is_i64, "int64") {
        errors.push(FieldError::invalid(path, &0.into(), &problem));
        return;
    }
    let Some(replicas) = find(object, path).ok().flatten().and_then(Value::as_i64) else {
        return;
    };
    if replicas < 0 {
        let detail = "should be a non-negative integer";
        errors.push(FieldError::invalid(path, &replicas.into(), detail));
    } else if replicas > i64::from(i32::MAX) {
        let detail = format!("should be less than or equal to {}", i32::MAX);
        errors.push(FieldError::invalid(path, &replicas.into(), &detail));
    }
}

/// Returns the error if the value at the path has another type.
fn mistyped(object: &Value, path: &str, fits: fn(&Value) -> bool, wanted: &str) -> Option<String> {
    match find(object, path) {
        Ok(None) => None,
        Ok(Some(value)) if fits(value) => None,
        Ok(Some(value)) => Some(format!(
            "{path} accessor error: {} is of the type {}, expected {wanted}",
            printed(value),
            go_type(value)
        )),
        Err(value) => Some(format!(
            "{path} accessor error: {} is of the type {}, expected map[string]interface{{}}",
            printed(value),
            go_type(value)
        )),
    }
}

/// Returns the value at a path. The error is an intermediate value that is not an object.
fn find<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, &'a Value> {
    let mut value = object;
    for key in path.trim_start_matches('.').split('.') {
        let Value::Object(map) = value else {
            return Err(value);
        };
        match map.get(key) {
            Some(inner) => value = inner,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// Formats a value as Go does.
fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        Value::Array(list) => {
            format!(
                "[{}]",
                list.iter().map(printed).collect::<Vec<_>>().join(" ")
            )
        }
        Value::Object(map) => {
            let fields = map
                .iter()
                .map(|(key, value)| format!("{key}:{}", printed(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_must_be_non_negative_integers() {
        let paths = ScalePaths {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            label_selector: Some(".status.selector".to_owned()),
        };
        let texts = |object: &Value| -> Vec<String> {
            validate_scale(&paths, object, false)
                .iter()
                .map(FieldError::text)
                .collect()
        };
        assert_eq!(texts(&json!({"spec": {"replicas": 3}})), [""; 0]);
        assert_eq!(
            texts(&json!({"spec": {"replicas": -1}, "status": {"replicas": 2_147_483_648_i64}})),
            [
                ".spec.replicas: Invalid value: -1: should be a non-negative integer",
                ".status.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647",
            ]
        );
        for (spec, problem) in [
            (
                json!({"replicas": "x"}),
                "x is of the type string, expected int64",
            ),
            (
                json!({"replicas": 1.5}),
                "1.5 is of the type float64, expected int64",
            ),
            (
                json!({"replicas": null}),
                "<nil> is of the type <nil>, expected int64",
            ),
            (
                json!({"replicas": {"a": 1}}),
                "map[a:1] is of the type map[string]interface {}, expected int64",
            ),
            (
                json!({"replicas": [1]}),
                "[1] is of the type []interface {}, expected int64",
            ),
            (
                json!("x"),
                "x is of the type string, expected map[string]interface{}",
            ),
        ] {
            assert_eq!(
                texts(&json!({"spec": spec})),
                [format!(
                    ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: {problem}"
                )]
            );
        }
        assert_eq!(
            texts(&json!({"status": {"selector": 1}})),
            [
                ".status.selector: Invalid value: \"\": .status.selector accessor error: 1 is of the type \
              int64, expected string"
            ]
        );
    }
}
