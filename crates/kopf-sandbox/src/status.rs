//! Errors of the API: a `Status` body with code, reason and details.

use serde_json::{Value, json};

use crate::field_error::FieldError;
use crate::kinds::Kind;
use crate::managers::Conflict;

/// A rejected request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
    /// The `Retry-After` header, in seconds.
    pub(crate) retry_after: Option<u32>,
    /// A `Status` from an admission webhook, passed on unchanged.
    pub(crate) verbatim: Option<Box<Value>>,
}

/// The result of an operation of a request.
pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            retry_after: None,
            verbatim: None,
        }
    }

    fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    pub(crate) fn with_retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        match &mut self.details {
            Some(Value::Object(details)) => {
                details.insert("retryAfterSeconds".to_owned(), json!(seconds));
            }
            _ => self.details = Some(json!({ "retryAfterSeconds": seconds })),
        }
        self
    }

    /// Returns an error that a real server reports without a reason.
    pub(crate) fn without_reason(code: u16, message: impl Into<String>) -> Self {
        Self::new(code, "", message)
    }

    /// Returns the error of a request that may succeed later.
    pub(crate) fn too_many_requests(message: impl Into<String>, details: Value) -> Self {
        Self::new(429, "TooManyRequests", message).with_details(details)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let resource = kind.qualified_plural();
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {name:?} is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).with_details(about(kind, &kind.plural, name))
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(
            404,
            "NotFound",
            format!("{} {name:?} not found", kind.qualified_plural()),
        )
        .with_details(about(kind, &kind.plural, name))
    }

    /// Returns the error of a path that does not exist.
    pub(crate) fn no_such_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .with_details(json!({}))
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details(json!({}))
    }

    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        Self::new(
            406,
            "NotAcceptable",
            format!("only the following media types are accepted: {accepted}"),
        )
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} {name:?} already exists", kind.qualified_plural()),
        )
        .with_details(about(kind, &kind.plural, name))
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        Self::new(
            409,
            "Conflict",
            format!(
                "Operation cannot be fulfilled on {} {name:?}: {why}",
                kind.qualified_plural()
            ),
        )
        .with_details(about(kind, &kind.plural, name))
    }

    /// Returns the error of a request that an admission policy denies. Without a reason, it is
    /// `Invalid`.
    pub(crate) fn denied_by_policy(kind: &Kind, name: &str, message: &str, reason: &str) -> Self {
        let mut error = Self::forbidden(kind, name, message);
        (error.code, error.reason) = match reason {
            "Forbidden" => (403, "Forbidden"),
            "Unauthorized" => (401, "Unauthorized"),
            "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
            _ => (422, "Invalid"),
        };
        if let Some(details) = error.details.as_mut().and_then(Value::as_object_mut) {
            details.insert("causes".to_owned(), json!([{ "message": message }]));
        }
        error
    }

    /// Returns the error of an apply that would take fields from other managers.
    pub(crate) fn apply_conflict(conflict: &Conflict) -> Self {
        Self::new(409, "Conflict", conflict.message())
            .with_details(json!({ "causes": conflict.causes() }))
    }

    pub(crate) fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// Returns the error of an object with invalid fields.
    pub(crate) fn invalid(kind: &Kind, name: &str, errors: &[FieldError]) -> Self {
        Self::invalid_named(&kind.group, &kind.kind, name, errors)
    }

    /// Returns the error of an object with invalid fields, where the real server names the resource
    /// instead of the kind.
    pub(crate) fn invalid_resource(kind: &Kind, name: &str, errors: &[FieldError]) -> Self {
        Self::invalid_named(&kind.group, &kind.plural, name, errors)
    }

    /// Returns the error of invalid options and patches, which are not objects.
    pub(crate) fn invalid_named(
        group: &str,
        kind: &str,
        name: &str,
        errors: &[FieldError],
    ) -> Self {
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let texts: Vec<String> = errors.iter().map(FieldError::text).collect();
        let list = match texts.as_slice() {
            [] => "unknown".to_owned(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut details = json!({});
        for (field, value) in [("group", group), ("kind", kind), ("name", name)] {
            if !value.is_empty() {
                details[field] = json!(value);
            }
        }
        if !errors.is_empty() {
            details["causes"] = errors.iter().map(FieldError::cause).collect();
        }
        Self::new(
            422,
            "Invalid",
            format!("{qualified} {name:?} is invalid: {list}"),
        )
        .with_details(details)
    }

    /// Returns the error of an object that is too large to be stored.
    pub(crate) fn object_too_large() -> Self {
        Self::without_reason(500, "etcdserver: request is too large")
    }

    /// Returns the error of a well-formed request that cannot be carried out, without an invalid
    /// field.
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message).with_details(json!({}))
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let cause = json!({ "message": message });
        Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
        .with_details(json!({ "causes": [cause] }))
    }

    /// Returns the error of a feature that the sandbox does not have.
    pub(crate) fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(501, "NotImplemented", message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    pub(crate) fn timeout(message: impl Into<String>, seconds: u32) -> Self {
        Self::new(504, "Timeout", format!("Timeout: {}", message.into())).with_retry_after(seconds)
    }

    /// Returns the body of the response.
    pub(crate) fn body(&self) -> Value {
        if let Some(verbatim) = &self.verbatim {
            return verbatim.as_ref().clone();
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

/// Returns `details` with the subject of the error. `kind` is the plural or the kind, as on the
/// real server.
fn about(kind: &Kind, what: &str, name: &str) -> Value {
    let mut details = json!({ "kind": what });
    if !name.is_empty() {
        details["name"] = json!(name);
    }
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    details
}
