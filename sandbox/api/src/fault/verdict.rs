//! The effect of faults on a request or a watch event.

use std::time::Duration;

use serde_json::{Value, json};

use super::rule::Verb;
use crate::status::{ApiError, Reason};
use crate::view::Lag;

/// The properties of a request that rules match.
#[derive(Debug, Clone, Copy)]
pub struct RequestFacts<'a> {
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: Option<&'a str>,
    pub namespace: Option<&'a str>,
    pub name: Option<&'a str>,
    pub user: &'a str,
}

/// The verdict on a request: first the delay, then the outcome.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    pub delay: Duration,
    /// The lag of the cache from which a read is answered.
    pub lag: Option<Lag>,
    pub outcome: Outcome,
}

/// The outcome of a request after the delay.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Outcome {
    #[default]
    Proceed,
    /// It is rejected.
    Reject(Box<ApiError>),
    /// It gets no response. The caller returns a response with this mark in its extensions.
    Break(ConnectionFault),
}

/// A mark in the extensions of a response that must not reach the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionFault {
    /// The listener resets the connection; in process, the call fails with `ConnectionBroken`.
    Reset,
    /// The listener stops serving the connection; in process, the call never returns.
    HalfOpen,
}

impl ConnectionFault {
    /// Returns the mark of a response, if it has one.
    pub fn of<B>(response: &http::Response<B>) -> Option<Self> {
        response.extensions().get::<Self>().copied()
    }

    /// Applies the mark to a caller in process, instead of the response.
    pub async fn act_in_process<T>(self) -> Result<T, ConnectionBroken> {
        match self {
            Self::Reset => Err(ConnectionBroken),
            Self::HalfOpen => std::future::pending().await,
        }
    }
}

/// The effect of faults on one event of one watch stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventVerdict {
    Deliver,
    Drop,
    /// It and all events behind it are delayed.
    Delay(Duration),
    /// The stream's body fails with `ConnectionBroken`.
    Cut,
    /// The stream stays open and sends nothing any more.
    Freeze,
}

/// The connection broke: the error of a client in process when a fault resets its connection,
/// instead of a response or as the next item of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection reset by peer")]
#[non_exhaustive]
pub struct ConnectionBroken;

impl From<ConnectionBroken> for std::io::Error {
    fn from(error: ConnectionBroken) -> Self {
        Self::new(std::io::ErrorKind::ConnectionReset, error)
    }
}

/// Returns the error of an injected fault: the usual `Status` for this code.
pub(crate) fn rejection(code: u16, retry_after: Option<u32>, facts: &RequestFacts<'_>) -> ApiError {
    let name = facts.name.unwrap_or_default();
    let qualified = qualified(facts);
    let (reason, message) = match code {
        409 if facts.verb == Verb::Create => (
            Reason::AlreadyExists,
            format!("{qualified} {name:?} already exists"),
        ),
        409 => (
            Reason::Conflict,
            format!(
                "Operation cannot be fulfilled on {qualified} {name:?}: the object has been modified; \
                 please apply your changes to the latest version and try again"
            ),
        ),
        410 => (
            Reason::Expired,
            "The resourceVersion for the provided list or watch is too old.".to_owned(),
        ),
        429 => (
            Reason::TooManyRequests,
            "Too many requests, please try again later.".to_owned(),
        ),
        503 => (
            Reason::Unavailable,
            "the server is currently unable to handle the request".to_owned(),
        ),
        504 => (
            Reason::Timeout,
            "Timeout: request did not complete within the allotted timeout".to_owned(),
        ),
        500 => (
            Reason::Internal,
            "Internal error occurred: a fault was injected".to_owned(),
        ),
        401 => (Reason::Unauthorized, "Unauthorized".to_owned()),
        403 => (
            Reason::Forbidden,
            format!("{qualified} {name:?} is forbidden: a fault was injected"),
        ),
        404 => (Reason::NotFound, format!("{qualified} {name:?} not found")),
        other => (
            if other >= 500 {
                Reason::Internal
            } else {
                Reason::None
            },
            format!("an error on the server ({other}) was injected"),
        ),
    };
    let mut error = ApiError::new(code, reason, message);
    if matches!(code, 403 | 404 | 409) {
        error = error.with_details(about(facts, name));
    }
    match retry_after.or((code == 429).then_some(1)) {
        Some(seconds) => error.with_retry_after(seconds),
        None => error,
    }
}

fn qualified(facts: &RequestFacts<'_>) -> String {
    if facts.group.is_empty() {
        facts.resource.to_owned()
    } else {
        format!("{}.{}", facts.resource, facts.group)
    }
}

fn about(facts: &RequestFacts<'_>, name: &str) -> Value {
    let mut details = json!({ "kind": facts.resource });
    if !name.is_empty() {
        details["name"] = json!(name);
    }
    if !facts.group.is_empty() {
        details["group"] = json!(facts.group);
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(verb: Verb) -> RequestFacts<'static> {
        RequestFacts {
            verb,
            group: "kopf.dev",
            resource: "kopfexamples",
            subresource: None,
            namespace: Some("ns"),
            name: Some("x"),
            user: "u",
        }
    }

    #[test]
    fn injected_errors_have_code_reason_and_details() {
        for (code, verb, reason) in [
            (409, Verb::Patch, "Conflict"),
            (409, Verb::Create, "AlreadyExists"),
            (410, Verb::Watch, "Expired"),
            (429, Verb::Get, "TooManyRequests"),
            (500, Verb::Get, "InternalError"),
            (503, Verb::Get, "ServiceUnavailable"),
            (504, Verb::Get, "Timeout"),
        ] {
            let body = rejection(code, None, &facts(verb)).body();
            assert_eq!(
                (&body["code"], &body["reason"]),
                (&json!(code), &json!(reason))
            );
            assert_eq!(body["kind"], "Status");
        }
        let conflict = rejection(409, None, &facts(Verb::Patch));
        assert_eq!(
            conflict.body()["details"],
            json!({ "kind": "kopfexamples", "name": "x", "group": "kopf.dev" })
        );
    }

    #[test]
    fn injected_429_has_retry_after() {
        assert_eq!(
            rejection(429, None, &facts(Verb::Get)).retry_after(),
            Some(1)
        );
        let later = rejection(503, Some(7), &facts(Verb::Get));
        assert_eq!(later.retry_after(), Some(7));
        assert_eq!(later.body()["details"]["retryAfterSeconds"], 7);
        assert_eq!(rejection(500, None, &facts(Verb::Get)).retry_after(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn reset_fails_and_half_open_call_waits_in_process() {
        assert_eq!(
            ConnectionFault::Reset.act_in_process::<()>().await,
            Err(ConnectionBroken)
        );
        let silent = ConnectionFault::HalfOpen.act_in_process::<()>();
        assert!(
            tokio::time::timeout(Duration::from_secs(3600), silent)
                .await
                .is_err()
        );
    }
}
