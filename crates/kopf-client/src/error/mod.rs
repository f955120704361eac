//! Errors of requests.
//!
//! Causes of other crates (connections, TLS, JSON) are converted to one line of text here, because
//! only this crate can tell which parts may be secrets. Error responses of the server are kept.

mod login;

use std::fmt;
use std::time::Duration;

use kopf_core::failure::describe;
use serde::Deserialize;
use serde_json::Value;

pub use self::login::LoginError;

/// Maximum length of a kept error page, in bytes.
const TEXT_LIMIT: usize = 256;

/// The message of API servers about JSON patches that do not apply. It hides the cause.
const UNAPPLICABLE: &str = "the server rejected our request due to an error in our request";

/// The cause of a failed `test` operation, which other servers with the same patch library show.
const FAILED_TEST: [&str; 2] = ["testing value ", " failed: test failed"];
/// A part of the message about a request with another uid than that of the object.
const UID_PRECONDITION: &str = "UID in precondition: ";

/// The messages of etcd and of its client about objects that are too large. API servers pass them
/// on with the code 500.
const STORAGE_REFUSALS: [&str; 2] = [
    "etcdserver: request is too large",
    "trying to send message larger than max",
];

/// The default limit of etcd for a request, in bytes.
const STORAGE_LIMIT: usize = 1_572_864;

/// Upper bound of a parsed `Retry-After`, in seconds.
const PARSED_RETRY_AFTER_LIMIT: f64 = 86_400.0;

/// Upper bound of the delay before a retry that a server can request.
const RETRY_AFTER_LIMIT: Duration = Duration::from_secs(60);

/// The beginning of the message with which a server rejects the content of an apply, with the code 500.
const UNTYPED_PATCH: &str = "failed to create typed patch object";

/// The error of a request.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server responded with an error.
    #[error("{0}")]
    Status(Box<Status>),

    /// The connection could not be established, or was broken.
    #[error("connection failed: {reason}")]
    Network {
        /// The causes, the deepest one last.
        reason: String,
    },

    /// TLS verification failed: the peer's certificate is not signed by a trusted CA.
    #[error("TLS verification failed: {reason}")]
    Untrusted {
        /// The causes, the deepest one last.
        reason: String,
    },

    /// The response did not arrive in time.
    #[error("no response within {} seconds", after.as_secs_f64())]
    Timeout {
        /// The timeout.
        after: Duration,
    },

    /// The response is malformed.
    #[error("unexpected response: {reason}")]
    Malformed {
        /// The reason.
        reason: String,
    },

    /// The server ended a watch at once and without an event, several times in a row.
    #[error(
        "the server ended the watch after {:.1} s without any event, {times} times in a row",
        after.as_secs_f64()
    )]
    Ended {
        /// The lifetime of the last watch.
        after: Duration,
        /// The number of such watches since the last progress.
        times: u32,
    },

    /// A response is larger than any that a server is expected to send.
    #[error("{what} exceeds the limit of {limit} bytes")]
    TooLarge {
        /// The oversized part.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },

    /// The request is larger than API servers accept, so it is not sent.
    #[error("the request has {size} bytes, and the server accepts {limit}")]
    Oversized {
        /// The size of the content in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },

    /// The request is invalid.
    #[error("impossible request: {reason}")]
    Impossible {
        /// The reason.
        reason: String,
    },

    /// The login failed permanently.
    #[error(transparent)]
    Login(#[from] LoginError),

    /// The resource has no such path.
    #[error(transparent)]
    Address(#[from] kopf_core::resource::Error),
}

impl Error {
    /// Returns the HTTP status code of the response, if there is one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status.code),
            _ => None,
        }
    }

    /// Returns the error response of the server, if there is one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    /// Returns `true` for 401: the credentials are missing or invalid.
    pub fn is_unauthorized(&self) -> bool {
        self.code() == Some(401)
    }

    /// Returns `true` for 403: access is denied.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Returns `true` for 404: the object or the resource does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Returns `true` for 409: the object was changed meanwhile, or already exists.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Returns `true` for 410: the requested version is too old.
    pub fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// Returns `true` for 422: a part of the request is invalid, or a condition of a JSON patch
    /// does not hold.
    pub fn is_unprocessable(&self) -> bool {
        self.code() == Some(422)
    }

    /// Returns `true` if a `test` operation of a JSON patch failed: the object is not in the state
    /// that the patch was made for, so the patch has to be made again for its newest version.
    ///
    /// API servers report every JSON patch that does not apply as a 422 with a fixed message and
    /// without details, whichever operation failed. Denials by webhooks and violations of schemas
    /// are 422 as well, but have their own messages.
    pub fn is_failed_test(&self) -> bool {
        self.status().is_some_and(Status::is_failed_test)
    }

    /// Returns `true` if the request names another uid than that of the object.
    pub fn is_other_uid(&self) -> bool {
        self.status().is_some_and(Status::is_other_uid)
    }

    /// Returns `true` if an admission webhook or policy denied the request. Webhooks choose the code
    /// of the response, so only the message shows it.
    pub fn is_denial(&self) -> bool {
        self.status().is_some_and(Status::is_denial)
    }

    /// Returns `true` if the content is too large: for the API server, for its storage, or for the
    /// annotations of an object. Sending it again cannot succeed.
    pub fn is_too_large(&self) -> bool {
        match self {
            Self::Oversized { .. } => true,
            Self::Status(status) => status.is_too_large(),
            _ => false,
        }
    }

    /// Returns the limit of [content that is too large](Self::is_too_large), in bytes, as far as the
    /// server names it; otherwise the default of its storage.
    pub fn size_limit(&self) -> usize {
        match self {
            Self::Oversized { limit, .. } => *limit,
            Self::Status(status) => status.size_limit().unwrap_or(STORAGE_LIMIT),
            _ => STORAGE_LIMIT,
        }
    }

    /// Returns `true` for 429: too many requests.
    pub fn is_throttled(&self) -> bool {
        self.code() == Some(429)
    }

    /// Returns `true` if the same request can succeed later without intervention.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Status(status) => {
                let is_about_content = status.message.starts_with(UNTYPED_PATCH);
                let is_refused = is_about_content || status.is_too_large();
                (status.code == 429 || status.code >= 500) && !is_refused
            }
            Self::Network { .. }
            | Self::Untrusted { .. }
            | Self::Timeout { .. }
            | Self::Ended { .. } => true,
            Self::Malformed { .. }
            | Self::TooLarge { .. }
            | Self::Oversized { .. }
            | Self::Impossible { .. }
            | Self::Login(_)
            | Self::Address(_) => false,
        }
    }

    /// Returns the delay before a retry that the server requests, at most 60 seconds.
    pub fn retry_after(&self) -> Option<Duration> {
        let asked = self.status()?.retry_after?;
        Some(asked.min(RETRY_AFTER_LIMIT))
    }

    pub(crate) fn network(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Network {
            reason: describe(error),
        }
    }

    pub(crate) fn malformed(what: &str, error: &serde_json::Error) -> Self {
        Self::Malformed {
            reason: format!("{what}: {}", explain(error)),
        }
    }
}

/// An error response of the server.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The reason as one word, such as `AlreadyExists`; empty if the server sends none.
    pub reason: String,
    /// The message; empty if the server sends none.
    pub message: String,
    /// The details of the server.
    pub details: Option<Value>,
    /// The delay that the server requests before a retry, as sent.
    pub retry_after: Option<Duration>,
}

/// The relevant part of the server's `Status` objects.
#[derive(Deserialize)]
struct Payload {
    kind: String,
    #[serde(default)]
    code: u16,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    details: Option<Value>,
}

impl Status {
    /// Returns an error response for tests.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            ..Self::default()
        }
    }

    /// Parses a response: `Status` objects are kept, other JSON is dropped, text is truncated.
    pub(crate) fn from_response(code: u16, retry_after: Option<&str>, body: &[u8]) -> Self {
        let mut status = match Payload::parse(body) {
            Some(payload) => Self::from_payload(payload),
            None if serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok() => {
                Self::default()
            }
            None => Self {
                message: cut(String::from_utf8_lossy(body).trim()),
                ..Self::default()
            },
        };
        status.code = code;
        if let Some(asked) = retry_after.and_then(|text| seconds(text.trim().parse().ok()?)) {
            status.retry_after = Some(asked);
        }
        status
    }

    /// Parses the object of an `ERROR` event.
    pub(crate) fn from_event(object: &[u8]) -> Self {
        Payload::parse(object).map_or_else(
            || Self::new(0, cut(&String::from_utf8_lossy(object))),
            |payload| {
                let code = payload.code;
                Self {
                    code,
                    ..Self::from_payload(payload)
                }
            },
        )
    }

    fn is_failed_test(&self) -> bool {
        // Schema violations name the object and the fields; unpatchable documents name nothing.
        let is_about_object = self.details.as_ref().is_some_and(|details| {
            let fields = ["name", "kind", "causes"];
            fields.iter().any(|field| details.get(field).is_some())
        });
        let reason = self.reason.as_str();
        self.code == 422
            && matches!(reason, "" | "Invalid")
            && !is_about_object
            && (self.message == UNAPPLICABLE
                || self.message.starts_with(FAILED_TEST[0])
                    && self.message.ends_with(FAILED_TEST[1]))
    }

    fn is_other_uid(&self) -> bool {
        match self.code {
            409 => self.message.contains(UID_PRECONDITION),
            422 => self.has_cause("metadata.uid", "FieldValueInvalid"),
            _ => false,
        }
    }

    fn is_too_large(&self) -> bool {
        let is_refused = |text: &&str| self.message.contains(*text);
        match self.code {
            413 => true,
            422 => self.has_cause("metadata.annotations", "FieldValueTooLong"),
            _ => STORAGE_REFUSALS.iter().any(is_refused),
        }
    }

    /// Returns `true` if a field is rejected for this reason.
    fn has_cause(&self, field: &str, reason: &str) -> bool {
        let causes = self
            .details
            .as_ref()
            .and_then(|details| details.get("causes"));
        let mut causes = causes.and_then(Value::as_array).into_iter().flatten();
        causes.any(|cause| {
            let text = |key| cause.get(key).and_then(Value::as_str).unwrap_or_default();
            text("field") == field && text("reason") == reason
        })
    }

    /// Returns the number after `limit is`, `no more than` or `more than`.
    fn size_limit(&self) -> Option<usize> {
        let (_, tail) = ["limit is ", "more than "]
            .iter()
            .find_map(|words| self.message.split_once(words))?;
        let digits = tail.split(|next: char| !next.is_ascii_digit()).next()?;
        digits.parse().ok()
    }

    fn is_denial(&self) -> bool {
        let is_by = |author: &str, verb: &str| {
            self.message.starts_with(author) && self.message.contains(verb)
        };
        is_by("admission webhook \"", "\" denied the request")
            || is_by("ValidatingAdmissionPolicy '", "' denied request")
    }

    fn from_payload(payload: Payload) -> Self {
        let retry_after = payload
            .details
            .as_ref()
            .and_then(|details| details.get("retryAfterSeconds"))
            .and_then(Value::as_f64)
            .filter(|seconds| *seconds > 0.0)
            .and_then(seconds);
        Self {
            code: 0,
            reason: payload.reason.unwrap_or_default(),
            message: payload.message.unwrap_or_default(),
            details: payload.details,
            retry_after,
        }
    }
}

impl Payload {
    fn parse(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body)
            .ok()
            .filter(|payload: &Self| payload.kind == "Status")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = http::StatusCode::from_u16(self.code)
            .ok()
            .and_then(|code| code.canonical_reason());
        let reason = match (self.reason.as_str(), known) {
            ("", Some(known)) => known,
            ("", None) => "error",
            (reason, _) => reason,
        };
        if self.message.is_empty() {
            write!(f, "{reason} ({})", self.code)
        } else {
            write!(f, "{} ({} {reason})", self.message, self.code)
        }
    }
}

/// Truncates to whole seconds, as the original does.
fn seconds(given: f64) -> Option<Duration> {
    (given.is_finite() && given >= 0.0)
        .then(|| Duration::from_secs_f64(given.min(PARSED_RETRY_AFTER_LIMIT).trunc()))
}

pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_LIMIT) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned(),
        None => text.to_owned(),
    }
}

/// Describes the error of a document without quoting it: objects can contain secrets.
pub(crate) fn explain(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Syntax => "it is not JSON",
        serde_json::error::Category::Data => "a field is missing or of a wrong type",
        serde_json::error::Category::Io => "it cannot be read",
    };
    format!("{what} (line {}, column {})", error.line(), error.column())
}

#[cfg(test)]
mod tests;
