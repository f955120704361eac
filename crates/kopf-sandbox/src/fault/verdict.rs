//! What becomes of a request or of a watch event once the faults have been asked.

use std::time::Duration;

use serde_json::{Value, json};

use super::rule::Verb;
use crate::status::ApiError;

/// What the faults may know of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestFacts<'a> {
    pub(crate) verb: Verb,
    /// The API group; empty for the core group.
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) user: &'a str,
}

/// What becomes of a request: first the delay, then the outcome.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) delay: Duration,
    pub(crate) outcome: Outcome,
}

/// How a request goes on after the delay.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Outcome {
    #[default]
    Proceed,
    /// It is refused.
    Answer(Box<ApiError>),
    /// It is never answered: respond with this mark in the extensions of the response.
    Break(ConnectionFault),
}

/// The mark of a response (in its extensions) that must not reach the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionFault {
    /// The listener resets the connection; in process, the call fails with `ConnectionBroken`.
    Reset,
    /// The listener silences the connection; in process, the call never ends.
    HalfOpen,
}

impl ConnectionFault {
    /// The mark of a response, if it has any.
    pub(crate) fn of<B>(response: &http::Response<B>) -> Option<Self> {
        response.extensions().get::<Self>().copied()
    }

    /// What the caller in process sees instead of the response.
    pub(crate) async fn act_in_process<T>(self) -> Result<T, ConnectionBroken> {
        match self {
            Self::Reset => Err(ConnectionBroken),
            Self::HalfOpen => std::future::pending().await,
        }
    }
}

/// What becomes of one event of one watch stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventFate {
    Deliver,
    Drop,
    /// It and all behind it come this much later.
    Delay(Duration),
    /// The stream's body fails with `ConnectionBroken`.
    Cut,
    /// The stream stays open and is silent from now on.
    Freeze,
}

/// The connection broke: what a client in process sees when a fault resets its connection,
/// either instead of a response or as the next piece of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection reset by peer")]
#[non_exhaustive]
pub struct ConnectionBroken;

impl From<ConnectionBroken> for std::io::Error {
    fn from(error: ConnectionBroken) -> Self {
        Self::new(std::io::ErrorKind::ConnectionReset, error)
    }
}

/// The refusal of an injected error: the `Status` that clients expect with this code.
pub(super) fn refusal(code: u16, retry_after: Option<u32>, facts: &RequestFacts<'_>) -> ApiError {
    let name = facts.name.unwrap_or_default();
    let qualified = if facts.group.is_empty() {
        facts.resource.to_owned()
    } else {
        format!("{}.{}", facts.resource, facts.group)
    };
    let (reason, message) = match code {
        409 if facts.verb == Verb::Create => (
            "AlreadyExists",
            format!("{qualified} {name:?} already exists"),
        ),
        409 => (
            "Conflict",
            format!(
                "Operation cannot be fulfilled on {qualified} {name:?}: the object has been modified; \
                 please apply your changes to the latest version and try again"
            ),
        ),
        410 => (
            "Expired",
            "The resourceVersion for the provided list or watch is too old.".to_owned(),
        ),
        429 => (
            "TooManyRequests",
            "Too many requests, please try again later.".to_owned(),
        ),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request".to_owned(),
        ),
        504 => (
            "Timeout",
            "Timeout: request did not complete within the allotted timeout".to_owned(),
        ),
        500 => (
            "InternalError",
            "Internal error occurred: a fault was injected".to_owned(),
        ),
        401 => ("Unauthorized", "Unauthorized".to_owned()),
        403 => (
            "Forbidden",
            format!("{qualified} {name:?} is forbidden: a fault was injected"),
        ),
        404 => ("NotFound", format!("{qualified} {name:?} not found")),
        other => (
            if other >= 500 { "InternalError" } else { "" },
            format!("an error on the server ({other}) was injected"),
        ),
    };
    let error = ApiError {
        code,
        reason,
        message,
        details: matches!(code, 403 | 404 | 409).then(|| about(facts, name)),
        retry_after: None,
        verbatim: None,
    };
    match retry_after.or((code == 429).then_some(1)) {
        Some(seconds) => error.with_retry_after(seconds),
        None => error,
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
    fn refusals_carry_what_clients_switch_on() {
        for (code, verb, reason) in [
            (409, Verb::Patch, "Conflict"),
            (409, Verb::Create, "AlreadyExists"),
            (410, Verb::Watch, "Expired"),
            (429, Verb::Get, "TooManyRequests"),
            (500, Verb::Get, "InternalError"),
            (503, Verb::Get, "ServiceUnavailable"),
            (504, Verb::Get, "Timeout"),
        ] {
            let body = refusal(code, None, &facts(verb)).body();
            assert_eq!(
                (&body["code"], &body["reason"]),
                (&json!(code), &json!(reason))
            );
            assert_eq!(body["kind"], "Status");
        }
        let conflict = refusal(409, None, &facts(Verb::Patch));
        assert_eq!(
            conflict.details,
            Some(json!({ "kind": "kopfexamples", "name": "x", "group": "kopf.dev" }))
        );
    }

    #[test]
    fn a_busy_server_says_when_to_come_back() {
        assert_eq!(refusal(429, None, &facts(Verb::Get)).retry_after, Some(1));
        let later = refusal(503, Some(7), &facts(Verb::Get));
        assert_eq!(later.retry_after, Some(7));
        assert_eq!(later.body()["details"]["retryAfterSeconds"], 7);
        assert_eq!(refusal(500, None, &facts(Verb::Get)).retry_after, None);
    }

    #[tokio::test(start_paused = true)]
    async fn in_process_a_reset_fails_and_a_half_open_call_waits() {
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
