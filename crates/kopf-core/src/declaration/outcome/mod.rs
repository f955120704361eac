//! Outcomes of attempts of handlers: success, a later attempt, or a failure.
//!
//! All decisions about errors are made here. Execution calls [`forbidden`] before a function and
//! [`decide`] after it; progress records and logs are derived from the result. The functions are
//! pure: times are arguments.

mod error;

use std::collections::BTreeSet;
use std::time::Duration;

pub use error::{Attachment, HandlerError};
use serde_json::Value;

use crate::handler::{ErrorsMode, HandlerId, HandlerKind, Retrying};
use crate::trigger::Requeue;
use crate::wording::{self, Level, Style};

/// An attempt, before or after the call.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The label of the handler in the log: see [`wording::label`].
    pub label: &'a str,
    /// The handler's limits.
    pub retrying: &'a Retrying,
    /// The default treatment of arbitrary errors for this type of handlers.
    pub default_errors: ErrorsMode,
    /// The default delay after arbitrary errors.
    pub default_backoff: Duration,
    /// The number of finished attempts before this one.
    pub retries: u32,
    /// The time since the first attempt, at the start of this attempt.
    pub runtime: Duration,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `true` if this was the last attempt.
    pub is_final: bool,
    /// The delay before the next attempt, if not final; `None` for immediately.
    pub delay: Option<Duration>,
    /// The result of the handler.
    pub value: Option<Value>,
    /// The error message for the record; with a final outcome, it marks a failure.
    pub error: Option<String>,
    /// The ids of all sub-handlers in the attempt; set by execution.
    pub subrefs: BTreeSet<HandlerId>,
    /// The verdict, for logs.
    pub verdict: Verdict,
    /// The origin of an arbitrary error, for logs.
    pub details: Option<String>,
    /// The exception of a frontend, for logs.
    pub attachment: Option<Attachment>,
}

/// The verdict on an attempt, for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It succeeded.
    Succeeded,
    /// It waits for its sub-handlers.
    Unfinished,
    /// It raised a temporary error.
    FailedTemporarily,
    /// It raised a permanent error.
    FailedPermanently,
    /// It denied the request with this status code.
    Denied(u16),
    /// It failed, and the error is ignored. Contains the message.
    Ignored(String),
    /// It failed, and is retried after this time.
    Retried(Duration),
    /// It failed, and errors are permanent for it.
    Stopped,
    /// It has reached its limit of time or attempts, or will reach it before the next attempt. The
    /// error contains the details.
    Exhausted,
    /// It was cancelled without a result.
    Cancelled,
}

impl Outcome {
    /// Returns the outcome of a reconcile handler that requests another call before its object may be deleted.
    #[must_use]
    pub fn continued(self, requeue: Requeue) -> Self {
        match requeue.pause() {
            Some(delay) if self.is_final && self.error.is_none() => Self {
                is_final: false,
                delay: Some(delay),
                ..self
            },
            _ => self,
        }
    }

    /// Returns the log record with the label of the handler, such as `Handler 'id'`.
    pub fn log(&self, label: &str, kind: HandlerKind, style: Style) -> (Level, String) {
        let error = self.error.as_deref().unwrap_or_default();
        let is_native = style == Style::Native;
        let is_review = matches!(kind, HandlerKind::Admission(_));
        let text = match &self.verdict {
            Verdict::Succeeded => return (Level::Info, format!("{label} succeeded.")),
            Verdict::Unfinished => {
                let text = format!("{label} has unfinished sub-handlers. Will retry soon.");
                return (Level::Debug, text);
            }
            Verdict::Cancelled => {
                let level = if is_native {
                    Level::Debug
                } else {
                    Level::Warning
                };
                return (level, wording::cancelled(label).to_string());
            }
            Verdict::FailedTemporarily => {
                let text = format!("{label} failed temporarily: {error}");
                let level = if is_native {
                    Level::Warning
                } else {
                    Level::Error
                };
                return (level, text);
            }
            Verdict::Denied(code) if is_native && is_review => {
                return (
                    Level::Info,
                    format!("{label} denied the request with {code}: {error}"),
                );
            }
            Verdict::FailedPermanently | Verdict::Denied(_) => {
                format!("{label} failed permanently: {error}")
            }
            Verdict::Ignored(error) => {
                format!("{label} failed with an exception and will ignore it: {error}")
            }
            Verdict::Retried(backoff) => {
                let backoff = wording::seconds(*backoff);
                format!(
                    "{label} failed with an exception and will try again in {backoff} seconds: {error}"
                )
            }
            Verdict::Stopped => {
                format!("{label} failed with an exception and will stop now: {error}")
            }
            Verdict::Exhausted => error.to_owned(),
        };
        (Level::Error, text)
    }

    fn new(verdict: Verdict) -> Self {
        Self {
            is_final: true,
            delay: None,
            value: None,
            error: None,
            subrefs: BTreeSet::new(),
            verdict,
            details: None,
            attachment: None,
        }
    }

    /// Returns the outcome of a cancelled attempt.
    pub fn cancelled() -> Self {
        Self::new(Verdict::Cancelled)
    }

    fn succeeded(value: Option<Value>) -> Self {
        Self {
            value: value.filter(|value| !value.is_null()),
            ..Self::new(Verdict::Succeeded)
        }
    }

    fn failed(verdict: Verdict, error: String) -> Self {
        Self {
            error: Some(error),
            ..Self::new(verdict)
        }
    }

    fn retried(verdict: Verdict, error: String, delay: Option<Duration>) -> Self {
        Self {
            is_final: false,
            delay,
            ..Self::failed(verdict, error)
        }
    }
}

/// Returns a failure if the function must not be called any more, because the time or the attempts
/// are exhausted.
///
/// This can happen although [`decide`] looks ahead: the operator may have been down meanwhile, or
/// the limits may have changed.
pub fn forbidden(attempt: &Attempt<'_>) -> Option<Outcome> {
    let Retrying {
        timeout, retries, ..
    } = attempt.retrying;
    if timeout.is_some_and(|timeout| attempt.runtime >= timeout) {
        return Some(timed_out(attempt, attempt.runtime));
    }
    if retries.is_some_and(|limit| attempt.retries >= limit) {
        let label = attempt.label;
        let error = format!("{label} has exceeded {} retries.", attempt.retries);
        return Some(Outcome::failed(Verdict::Exhausted, error));
    }
    None
}

/// Returns the outcome of a call. The runtime is as of the end of the call.
///
/// If the next attempt would come too late or be one too many, the handler fails now.
pub fn decide(
    attempt: &Attempt<'_>,
    runtime_after: Duration,
    result: Result<Option<Value>, HandlerError>,
) -> Outcome {
    match result {
        Ok(value) => Outcome::succeeded(value),
        Err(HandlerError::Unfinished { delay }) => {
            // The original stores `None` for an error without a message.
            Outcome::retried(Verdict::Unfinished, "None".to_owned(), delay)
        }
        Err(HandlerError::TimedOut) => timed_out(attempt, runtime_after),
        Err(HandlerError::Cancelled) => Outcome::cancelled(),
        Err(HandlerError::Permanent { message }) => {
            Outcome::failed(Verdict::FailedPermanently, message)
        }
        Err(HandlerError::Denied { message, code }) => {
            Outcome::failed(Verdict::Denied(code), message)
        }
        Err(HandlerError::Temporary { message, delay }) => {
            failed_temporarily(attempt, runtime_after, message, delay)
        }
        Err(HandlerError::Arbitrary {
            message,
            details,
            attachment,
        }) => Outcome {
            details,
            attachment,
            ..failed_arbitrarily(attempt, runtime_after, message)
        },
    }
}

fn failed_temporarily(
    attempt: &Attempt<'_>,
    runtime_after: Duration,
    message: String,
    delay: Option<Duration>,
) -> Outcome {
    let Some(limit) = limit_ahead(attempt, runtime_after, delay.unwrap_or_default()) else {
        return Outcome::retried(Verdict::FailedTemporarily, message, delay);
    };
    let label = attempt.label;
    let limit = match limit {
        Limit::Timeout(timeout) => {
            format!("time out after {} seconds", wording::seconds(timeout))
        }
        Limit::Retries(retries) => format!("exceed {retries} retries"),
    };
    let error = format!("{label} failed temporarily but will {limit}: {message}");
    Outcome::failed(Verdict::Exhausted, error)
}

fn failed_arbitrarily(attempt: &Attempt<'_>, runtime_after: Duration, message: String) -> Outcome {
    let retrying = attempt.retrying;
    let backoff = retrying.backoff.unwrap_or(attempt.default_backoff);
    match retrying.errors.unwrap_or(attempt.default_errors) {
        ErrorsMode::Ignored => return Outcome::new(Verdict::Ignored(message)),
        ErrorsMode::Permanent => return Outcome::failed(Verdict::Stopped, message),
        ErrorsMode::Temporary => {}
    }
    let Some(limit) = limit_ahead(attempt, runtime_after, backoff) else {
        return Outcome::retried(Verdict::Retried(backoff), message, Some(backoff));
    };
    let label = attempt.label;
    let limit = match limit {
        Limit::Timeout(timeout) => format!("time out in {} seconds", wording::seconds(timeout)),
        Limit::Retries(retries) => format!("exceed {retries} retries"),
    };
    let error = format!(
        "{label} failed with an exception and will stop now (it would {limit} on the next \
         attempt): {message}"
    );
    Outcome::failed(Verdict::Exhausted, error)
}

#[derive(Clone, Copy)]
enum Limit {
    Timeout(Duration),
    Retries(u32),
}

/// Returns the limit that the next attempt would reach after the delay.
fn limit_ahead(attempt: &Attempt<'_>, runtime: Duration, delay: Duration) -> Option<Limit> {
    let ahead = runtime.saturating_add(delay);
    let timeout = attempt.retrying.timeout.filter(|&timeout| ahead >= timeout);
    let tried = attempt.retries.saturating_add(1);
    let retries = attempt.retrying.retries.filter(|&limit| tried >= limit);
    timeout.map(Limit::Timeout).or(retries.map(Limit::Retries))
}

fn timed_out(attempt: &Attempt<'_>, runtime: Duration) -> Outcome {
    let label = attempt.label;
    let error = format!("{label} has timed out after {}.", wording::elapsed(runtime));
    Outcome::failed(Verdict::Exhausted, error)
}

#[cfg(test)]
mod tests;
