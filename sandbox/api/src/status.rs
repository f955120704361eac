//! Errors of the API: a `Status` body with code, reason and details.

use kopf_sandbox_kinds::managers::Conflict;
use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::typing::Mismatch;
use serde_json::{Value, json};

/// A rejected request.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)]
pub enum ApiError {
    /// An error of this server.
    Failure(Box<Failure>),
    /// A whole `Status`, passed on unchanged: that of an admission webhook, or one with fields beyond
    /// those of a failure.
    Verbatim {
        code: u16,
        /// The `Retry-After` header, in seconds.
        retry_after: Option<u32>,
        status: Box<Value>,
    },
}

/// The parts of a `Status`.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub code: u16,
    reason: Reason,
    pub message: String,
    pub details: Option<Value>,
    /// The `Retry-After` header, in seconds.
    retry_after: Option<u32>,
}

/// The reason of a failure, by which clients distinguish errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
pub enum Reason {
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Internal,
    Invalid,
    MethodNotAllowed,
    /// A real server gives none either.
    None,
    NotAcceptable,
    NotFound,
    NotImplemented,
    Timeout,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
}

impl Reason {
    /// Returns the name in a `Status`; empty for none.
    fn name(self) -> &'static str {
        match self {
            Self::AlreadyExists => "AlreadyExists",
            Self::BadRequest => "BadRequest",
            Self::Conflict => "Conflict",
            Self::Expired => "Expired",
            Self::Forbidden => "Forbidden",
            Self::Internal => "InternalError",
            Self::Invalid => "Invalid",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::None => "",
            Self::NotAcceptable => "NotAcceptable",
            Self::NotFound => "NotFound",
            Self::NotImplemented => "NotImplemented",
            Self::Timeout => "Timeout",
            Self::TooLarge => "RequestEntityTooLarge",
            Self::TooManyRequests => "TooManyRequests",
            Self::Unauthorized => "Unauthorized",
            Self::Unavailable => "ServiceUnavailable",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
        }
    }
}

/// The result of an operation of a request.
pub type Result<T, E = ApiError> = std::result::Result<T, E>;

impl ApiError {
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self::Failure(Box::new(Failure {
            code,
            reason,
            message: message.into(),
            details: None,
            retry_after: None,
        }))
    }

    /// Returns the HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::Failure(failure) => failure.code,
            Self::Verbatim { code, .. } => *code,
        }
    }

    /// Returns the `Retry-After` header, in seconds.
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            Self::Failure(failure) => failure.retry_after,
            Self::Verbatim { retry_after, .. } => *retry_after,
        }
    }

    /// Returns `true` for failures of this server with this reason.
    pub fn is(&self, reason: Reason) -> bool {
        matches!(self, Self::Failure(failure) if failure.reason == reason)
    }

    pub fn message(&self) -> &str {
        match self {
            Self::Failure(failure) => &failure.message,
            Self::Verbatim { status, .. } => {
                let message = status.get("message").and_then(Value::as_str);
                message.unwrap_or_default()
            }
        }
    }

    /// Changes the parts of a failure. A whole `Status` stays as it is.
    #[must_use]
    pub(crate) fn edited(mut self, edit: impl FnOnce(&mut Failure)) -> Self {
        if let Self::Failure(failure) = &mut self {
            edit(failure);
        }
        self
    }

    pub(crate) fn with_details(self, details: Value) -> Self {
        self.edited(|failure| failure.details = Some(details))
    }

    /// Adds the causes to the details, if there are any.
    pub(crate) fn with_causes(self, causes: Value) -> Self {
        self.edited(|failure| {
            if let Some(Value::Object(details)) = &mut failure.details {
                details.insert("causes".to_owned(), causes);
            }
        })
    }

    pub(crate) fn with_retry_after(self, seconds: u32) -> Self {
        self.edited(|failure| {
            failure.retry_after = Some(seconds);
            match &mut failure.details {
                Some(Value::Object(details)) => {
                    details.insert("retryAfterSeconds".to_owned(), json!(seconds));
                }
                _ => failure.details = Some(json!({ "retryAfterSeconds": seconds })),
            }
        })
    }

    /// Returns an error that a real server reports without a reason.
    pub(crate) fn without_reason(code: u16, message: impl Into<String>) -> Self {
        Self::new(code, Reason::None, message)
    }

    /// Returns the error of a request that may succeed later.
    pub(crate) fn too_many_requests(message: impl Into<String>, details: Value) -> Self {
        Self::new(429, Reason::TooManyRequests, message).with_details(details)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, Reason::BadRequest, message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, Reason::Unauthorized, "Unauthorized")
    }

    pub fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let resource = kind.qualified_plural();
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {name:?} is forbidden: {why}")
        };
        Self::new(403, Reason::Forbidden, message).with_details(about(kind, &kind.plural, name))
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(
            404,
            Reason::NotFound,
            format!("{} {name:?} not found", kind.qualified_plural()),
        )
        .with_details(about(kind, &kind.plural, name))
    }

    /// Returns the error of a path that does not exist.
    pub fn no_such_path() -> Self {
        Self::new(
            404,
            Reason::NotFound,
            "the server could not find the requested resource",
        )
        .with_details(json!({}))
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            Reason::MethodNotAllowed,
            "the server does not allow this method on the requested resource",
        )
        .with_details(json!({}))
    }

    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        Self::new(
            406,
            Reason::NotAcceptable,
            format!("only the following media types are accepted: {accepted}"),
        )
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(
            409,
            Reason::AlreadyExists,
            format!("{} {name:?} already exists", kind.qualified_plural()),
        )
        .with_details(about(kind, &kind.plural, name))
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        Self::new(
            409,
            Reason::Conflict,
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
        let (code, reason) = match reason {
            "Forbidden" => (403, Reason::Forbidden),
            "Unauthorized" => (401, Reason::Unauthorized),
            "RequestEntityTooLarge" => (413, Reason::TooLarge),
            _ => (422, Reason::Invalid),
        };
        Self::forbidden(kind, name, message)
            .with_causes(json!([{ "message": message }]))
            .edited(|failure| (failure.code, failure.reason) = (code, reason))
    }

    /// Returns the error of an apply that would take fields from other managers.
    pub(crate) fn apply_conflict(conflict: &Conflict) -> Self {
        Self::new(409, Reason::Conflict, conflict.message())
            .with_details(json!({ "causes": conflict.causes() }))
    }

    pub fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, Reason::Expired, message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, Reason::TooLarge, message)
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, Reason::UnsupportedMediaType, message)
    }

    /// Returns the error of a create or update with wrong types.
    pub(crate) fn mistyped(kind: &Kind, version: &str, mismatch: &Mismatch) -> Self {
        let (kind, why) = (&kind.kind, &mismatch.text);
        Self::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
        ))
    }

    /// Returns the error of an object with invalid fields.
    pub fn invalid(kind: &Kind, name: &str, errors: &[FieldError]) -> Self {
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
            Reason::Invalid,
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
        Self::new(422, Reason::Invalid, message).with_details(json!({}))
    }

    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let cause = json!({ "message": message });
        Self::new(
            500,
            Reason::Internal,
            format!("Internal error occurred: {message}"),
        )
        .with_details(json!({ "causes": [cause] }))
    }

    /// Returns the error of a feature that the sandbox does not have.
    pub(crate) fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(501, Reason::NotImplemented, message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, Reason::Unavailable, message)
    }

    pub fn timeout(message: impl Into<String>, seconds: u32) -> Self {
        Self::new(504, Reason::Timeout, format!("Timeout: {}", message.into()))
            .with_retry_after(seconds)
    }

    /// Returns the body of the response.
    pub fn body(&self) -> Value {
        let failure = match self {
            Self::Verbatim { status, .. } => return status.as_ref().clone(),
            Self::Failure(failure) => failure,
        };
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": failure.message,
            "code": failure.code,
        });
        if failure.reason != Reason::None {
            status["reason"] = json!(failure.reason.name());
        }
        if let Some(details) = &failure.details {
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
