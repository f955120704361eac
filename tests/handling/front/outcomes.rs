//! What handlers of the cases come to.

use std::time::Duration;

use kopf_core::outcome::HandlerError;
use kopf_engine::invocation::HandlerResult;
use serde_json::Value;

/// Success without a result.
#[allow(clippy::unnecessary_wraps, reason = "it is one of several outcomes")]
pub(crate) fn done() -> HandlerResult {
    Ok(None)
}

/// Success with a result.
#[allow(clippy::unnecessary_wraps, reason = "it is one of several outcomes")]
pub(crate) fn gives(value: Value) -> HandlerResult {
    Ok(Some(value))
}

/// To be tried again after so many seconds.
pub(crate) fn temporary(message: &str, seconds: f64) -> HandlerResult {
    let delay = Some(Duration::from_secs_f64(seconds));
    Err(HandlerError::temporary(message, delay))
}

/// Failed for good.
pub(crate) fn permanent(message: &str) -> HandlerResult {
    Err(HandlerError::permanent(message))
}

/// Not to be done.
pub(crate) fn denied(message: &str, code: u16) -> HandlerResult {
    Err(HandlerError::denied(message, Some(code)))
}

/// Any other error.
pub(crate) fn arbitrary(message: &str) -> HandlerResult {
    Err(HandlerError::arbitrary(message))
}
