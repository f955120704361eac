//! Failures of calls, as the bridge reports them.

use std::time::Duration;

use kopf_core::outcome::{Attachment, HandlerError};
use pyo3::prelude::*;

use crate::front::job::Exception;

/// Converts a number of seconds. Negative numbers are zero.
pub(super) fn delay(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

/// Returns the error of this kind. Unknown kinds are exceptions.
pub(super) fn error(
    kind: &str,
    message: String,
    delay: Option<Duration>,
    code: Option<u16>,
    exception: Option<Py<PyAny>>,
) -> HandlerError {
    match kind {
        "temporary" => HandlerError::temporary(message, delay),
        "permanent" => HandlerError::permanent(message),
        "denied" => HandlerError::denied(message, code),
        "unfinished" => HandlerError::Unfinished { delay },
        "cancelled" => HandlerError::Cancelled,
        _ => match exception {
            Some(exception) => {
                let attachment = Attachment::new(Exception(exception));
                HandlerError::exception(message, None, attachment)
            }
            None => HandlerError::arbitrary(message),
        },
    }
}
