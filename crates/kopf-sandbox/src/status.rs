//! Errors as the API shows them: a `Status` body with the code, reason and details that clients switch on.

use serde_json::{Value, json};

use crate::field_error::FieldError;
use crate::kinds::Kind;
use crate::managers::Conflict;

/// A refused request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
    /// Seconds for the `Retry-After` header.
    pub(crate) retry_after: Option<u32>,
    /// A `Status` that somebody else wrote (an admission webhook), passed on as it is.
    pub(crate) verbatim: Option<Box<Value>>,
}

/// The result of anything that a request may fail at.
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

    /// An error that a real server reports without a reason.
    pub(crate) fn without_reason(code: u16, message: impl Into<String>) -> Self {
        Self::new(code, "", message)
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

    /// The path itself leads nowhere.
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

    /// Somebody else has changed the object since it was read.
    /// A request that an admission policy denies. Without a reason, it is invalid.
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

    /// An apply that would take fields from other managers.
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

    /// Some fields of an object are not as they must be.
    pub(crate) fn invalid(kind: &Kind, name: &str, errors: &[FieldError]) -> Self {
        Self::invalid_named(&kind.group, &kind.kind, name, errors)
    }

    /// The same, where the real server names the resource instead of the kind.
    pub(crate) fn invalid_resource(kind: &Kind, name: &str, errors: &[FieldError]) -> Self {
        Self::invalid_named(&kind.group, &kind.plural, name, errors)
    }

    /// The same for options and patches, which are no objects.
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

    /// The object is larger than what can be stored.
    pub(crate) fn object_too_large() -> Self {
        Self::without_reason(500, "etcdserver: request is too large")
    }

    /// The request is well-formed but can't be carried out, and no field is to blame.
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

    /// Something that this server does not do; it says so instead of pretending.
    pub(crate) fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(501, "NotImplemented", message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    pub(crate) fn timeout(message: impl Into<String>, seconds: u32) -> Self {
        Self::new(504, "Timeout", format!("Timeout: {}", message.into())).with_retry_after(seconds)
    }

    /// The answer's body.
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

/// `details` that name what the error is about. `kind` holds the plural or the kind, as the real server does.
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
