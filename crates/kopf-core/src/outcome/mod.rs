//! What comes out of an attempt of a handler: success, another attempt later, or the end.
//!
//! The one place where errors get their meaning. Execution asks [`forbidden`] before it calls a
//! function and [`decide`] after; progress records and logs are made of the answer. Nothing is
//! called or awaited here, and no clock is read: times are arguments.

mod error;

use std::collections::BTreeSet;
use std::time::Duration;

pub use error::{Attachment, HandlerError};
use serde_json::Value;

use crate::handler::{ErrorsMode, HandlerId, HandlerKind, Retrying};
use crate::wording::{self, Level, Style};

/// An attempt that is about to be made, or was made.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// How the handler is called in the log: see [`wording::label`].
    pub label: &'a str,
    /// The handler's limits.
    pub retrying: &'a Retrying,
    /// What arbitrary errors mean for this kind of handlers.
    pub default_errors: ErrorsMode,
    /// When to try again after arbitrary errors, if the handler does not say.
    pub default_backoff: Duration,
    /// How many attempts were finished before this one.
    pub retries: u32,
    /// How long ago the handler was first seen, at the beginning of this attempt.
    pub runtime: Duration,
}

/// What came out of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Whether this was the last attempt.
    pub is_final: bool,
    /// When to try again, if not final; none is at once.
    pub delay: Option<Duration>,
    /// What the handler returned.
    pub value: Option<Value>,
    /// The text of the error for the record; with a final outcome, it makes it a failure.
    pub error: Option<String>,
    /// The ids of all sub-handlers that were seen in the attempt; filled in by execution.
    pub subrefs: BTreeSet<HandlerId>,
    /// What is said about it.
    pub verdict: Verdict,
    /// Where an arbitrary error comes from, for logs.
    pub details: Option<String>,
    /// The exception of a front, for logs.
    pub attachment: Option<Attachment>,
}

/// What is said about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It succeeded.
    Succeeded,
    /// It waits for its sub-handlers.
    Unfinished,
    /// It said that it will work later.
    FailedTemporarily,
    /// It said that it will never work.
    FailedPermanently,
    /// It said that what was asked for is not to be done, with this status code.
    Denied(u16),
    /// It failed, and that does not matter. The text of the error.
    Ignored(String),
    /// It failed, and is tried again after this time.
    Retried(Duration),
    /// It failed, and errors are final for it.
    Stopped,
    /// It has reached its limit of time or of attempts, or will with the next attempt. The error's
    /// text says all of it.
    Exhausted,
    /// It was stopped in the middle: nothing came out of it.
    Cancelled,
}

impl Outcome {
    /// Returns the record for the log. The label is the handler's name there, such as `Handler 'id'`.
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
            Verdict::Cancelled => return (Level::Debug, wording::cancelled(label).to_string()),
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

    /// Returns the outcome of an attempt of which nothing has come.
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

/// Whether the function must not be called any more: the handler is out of time or of attempts.
///
/// This can happen although [`decide`] looks ahead: the operator may have been down meanwhile, or
/// the limits may have been changed.
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
            // The original stores the text of an error without a text.
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

/// The limit that the next attempt would reach, if it is made after the delay.
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
