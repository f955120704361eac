//! Results of handlers.

use std::time::Duration;

use kopf_core::outcome::HandlerError;
use kopf_core::trigger::Requeue;
use kopf_engine::invocation::{Call, HandlerResult};
use serde_json::Value;

/// Succeeds without a result.
#[allow(clippy::unnecessary_wraps, reason = "it is one of several outcomes")]
pub(crate) fn done() -> HandlerResult {
    Ok(None)
}

/// Succeeds, and requests another call of a reconcile handler after some seconds.
#[allow(clippy::unnecessary_wraps, reason = "it is one of several outcomes")]
pub(crate) fn requeued(call: &Call, seconds: f64) -> HandlerResult {
    call.slot
        .put(Requeue::after(Duration::from_secs_f64(seconds)));
    Ok(None)
}

/// Succeeds with a result.
#[allow(clippy::unnecessary_wraps, reason = "it is one of several outcomes")]
pub(crate) fn gives(value: Value) -> HandlerResult {
    Ok(Some(value))
}

/// Fails temporarily, with a delay in seconds.
pub(crate) fn temporary(message: &str, seconds: f64) -> HandlerResult {
    let delay = Some(Duration::from_secs_f64(seconds));
    Err(HandlerError::temporary(message, delay))
}

/// Fails permanently.
pub(crate) fn permanent(message: &str) -> HandlerResult {
    Err(HandlerError::permanent(message))
}

/// Denies an admission request.
pub(crate) fn denied(message: &str, code: u16) -> HandlerResult {
    Err(HandlerError::denied(message, Some(code)))
}

/// Fails with an arbitrary error.
pub(crate) fn arbitrary(message: &str) -> HandlerResult {
    Err(HandlerError::arbitrary(message))
}
