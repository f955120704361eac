//! Validation errors of single fields, with the wording of the real server.

use serde_json::{Value, json};

/// The type of a field error; its name is the `reason` of the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    Required,
    Invalid,
    NotSupported,
    Forbidden,
    Duplicate,
    TypeInvalid,
    TooLong,
    TooMany,
    NotFound,
}

impl FieldErrorKind {
    /// Returns the `reason` of the cause in a `Status`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
        }
    }
}

/// A field error. `message` is the whole message without the field path.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    pub kind: FieldErrorKind,
    /// The path in the server's notation: `spec.items[0].name`, `metadata.labels`, or empty for the
    /// root.
    pub field: String,
    /// The message after the path, e.g. `Invalid value: "x": must be a number`.
    pub message: String,
}

impl FieldError {
    pub fn new(kind: FieldErrorKind, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            field: field.into(),
            message: message.into(),
        }
    }

    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self::new(FieldErrorKind::Required, field, message)
    }

    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new(
            FieldErrorKind::Invalid,
            field,
            format!("Invalid value: {}: {detail}", shown(value)),
        )
    }

    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new(
            FieldErrorKind::Forbidden,
            field,
            format!("Forbidden: {detail}"),
        )
    }

    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(
            FieldErrorKind::Duplicate,
            field,
            format!("Duplicate value: {}", shown(value)),
        )
    }

    /// Returns an error for a value outside of a set. `supported` is printed in the given order;
    /// the real server sorts it.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list = supported
            .iter()
            .map(|s| format!("{s:?}"))
            .collect::<Vec<_>>()
            .join(", ");
        Self::new(
            FieldErrorKind::NotSupported,
            field,
            format!(
                "Unsupported value: {}: supported values: {list}",
                shown(value)
            ),
        )
    }

    /// Returns the path and the message, as in the message of a `Status`.
    pub fn text(&self) -> String {
        if self.field.is_empty() {
            format!("<nil>: {}", self.message)
        } else {
            format!("{}: {}", self.field, self.message)
        }
    }

    /// Returns the error as an entry of `details.causes`.
    pub fn cause(&self) -> Value {
        json!({ "reason": self.kind.reason(), "message": self.message, "field": self.field })
    }
}

/// Formats a value as in the server's messages.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_match_a_real_server() {
        let error = FieldError::invalid("spec.size", &json!("x"), "must be a number");
        assert_eq!(
            error.text(),
            r#"spec.size: Invalid value: "x": must be a number"#
        );
        assert_eq!(
            FieldError::required("metadata.name", "").text(),
            "metadata.name: Required value"
        );
        assert_eq!(
            FieldError::not_supported("a", &json!("z"), &["b", "c"]).message,
            r#"Unsupported value: "z": supported values: "b", "c""#
        );
    }
}
