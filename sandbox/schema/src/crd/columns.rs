//! Validation of `additionalPrinterColumns`, and of JSON paths in general.

use serde_json::Value;

use crate::field_error::FieldError;

const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

pub(super) fn validate(columns: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let at = |key: &str| format!("{path}[{index}].{key}");
        let text = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("name").is_empty() {
            errors.push(FieldError::required(at("name"), ""));
        }
        let type_name = text("type");
        let detail = format!("must be one of {}", TYPES.join(","));
        if type_name.is_empty() {
            errors.push(FieldError::required(at("type"), &detail));
        } else if !TYPES.contains(&type_name) {
            errors.push(FieldError::invalid(at("type"), &type_name.into(), &detail));
        }
        let format = text("format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let detail = format!("must be one of {}", FORMATS.join(","));
            errors.push(FieldError::invalid(at("format"), &format.into(), &detail));
        }
        // The error uses the field name of the server's internal types.
        let json_path = text("jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(at("JSONPath"), ""));
        } else if let Some(problem) = json_path_problem(json_path) {
            errors.push(FieldError::invalid(
                at("JSONPath"),
                &json_path.into(),
                problem,
            ));
        }
    }
    errors
}

/// Returns the error of a string that is not a simple path such as `.spec.replicas`.
pub(super) fn json_path_problem(path: &str) -> Option<&'static str> {
    (!path.starts_with('.')).then_some("must be a simple json path starting with .")
}
