//! Validation of `selectableFields`.

use serde_json::Value;

use crate::field_error::{FieldError, FieldErrorKind};
use crate::schema::{Additional, Source};

const MAX_FIELDS: usize = 8;

pub(super) fn validate(fields: &Value, schema: Source<'_>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for (index, field) in fields.as_array().into_iter().flatten().enumerate() {
        let at = format!("{path}[{index}].jsonPath");
        let json_path = field
            .get("jsonPath")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if json_path.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let value = Value::from(json_path);
        let found = match resolve(json_path, schema) {
            Ok(found) => found,
            Err(problem) => {
                let detail = format!("is an invalid path: {problem}");
                errors.push(FieldError::invalid(at, &value, &detail));
                continue;
            }
        };
        if json_path == ".metadata" || json_path.starts_with(".metadata.") {
            let detail = "must not point to fields in metadata";
            errors.push(FieldError::invalid(at.clone(), &value, detail));
        }
        if !matches!(found.text("type"), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string \
                          fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(at.clone(), &value, detail));
        }
        if known.contains(&json_path) {
            errors.push(FieldError::duplicate(at, &value));
        } else {
            known.push(json_path);
        }
    }
    if known.len() > MAX_FIELDS {
        let count = known.len();
        let message = format!("Too many: {count}: must have at most {MAX_FIELDS} items");
        errors.push(FieldError::new(FieldErrorKind::TooMany, path, message));
    }
    errors
}

/// Returns the schema at a path such as `.spec.color`.
fn resolve<'a>(path: &str, schema: Source<'a>) -> Result<Source<'a>, String> {
    let mut found = schema;
    let mut tokens = tokens(path).into_iter();
    while let Some(token) = tokens.next() {
        match token {
            "[" => return Err("array notation is not allowed".to_owned()),
            "." => {}
            other => return Err(format!("expected [ or . but got: {other}")),
        }
        let name = tokens.next().ok_or("unexpected end of JSON path")?;
        let invalid = "does not refer to a valid field";
        found = if found.has_properties() {
            found.property(name).ok_or(invalid)?
        } else {
            match found.additional() {
                Additional::Schema(schema) => schema,
                Additional::None | Additional::Flag(_) => return Err(invalid.to_owned()),
            }
        };
    }
    Ok(found)
}

/// Splits at dots and brackets, which are separate tokens.
fn tokens(path: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let end = match rest.find(['.', '[', ']']) {
            Some(0) => 1,
            Some(end) => end,
            None => rest.len(),
        };
        let (token, tail) = rest.split_at(end);
        tokens.push(token);
        rest = tail;
    }
    tokens
}
