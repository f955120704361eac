//! Errors of handlers.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An opaque value of a frontend that belongs to an error, such as an exception of its language.
/// Cheap to clone: clones are the same value. Two attachments are equal if they are the same value.
#[derive(Clone)]
pub struct Attachment(Arc<dyn Any + Send + Sync>);

impl Attachment {
    /// Wraps a value.
    pub fn new(value: impl Any + Send + Sync) -> Self {
        Self(Arc::new(value))
    }

    /// Returns the value, if it is of this type.
    pub fn downcast_ref<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl PartialEq for Attachment {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attachment")
    }
}

/// The error of a handler.
#[doc(hidden)] // Between the frontends and the engine; users have `kopf::Error`.
#[derive(Clone, Debug, PartialEq)]
pub enum HandlerError {
    /// Temporary: it is retried later.
    Temporary {
        /// The message.
        message: String,
        /// The delay before the next attempt; `None` for immediately.
        delay: Option<Duration>,
    },
    /// Permanent: it is not retried.
    Permanent {
        /// The message.
        message: String,
    },
    /// A denial of an admission request. Outside of admission, the same as a permanent error.
    Denied {
        /// The message.
        message: String,
        /// The status code of the response.
        code: u16,
    },
    /// Any other error. Its treatment depends on the handler's
    /// [`ErrorsMode`](crate::handler::ErrorsMode).
    Arbitrary {
        /// The message.
        message: String,
        /// The origin (a chain of errors, a backtrace), for logs.
        details: Option<String>,
        /// An exception of a frontend, for the log record.
        attachment: Option<Attachment>,
    },
    /// It has unfinished sub-handlers. Not a failure.
    Unfinished {
        /// The time until the first of them is due; `None` for immediately.
        delay: Option<Duration>,
    },
    /// It exceeded its timeout and was cancelled.
    TimedOut,
    /// It was signalled to end, did not end in time, and was cancelled.
    Cancelled,
}

impl HandlerError {
    /// Returns a temporary error; without a delay, it is retried immediately.
    pub fn temporary(message: impl Into<String>, delay: Option<Duration>) -> Self {
        Self::Temporary {
            message: message.into(),
            delay,
        }
    }

    /// Returns a permanent error.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::Permanent {
            message: message.into(),
        }
    }

    /// Returns a denial; the default code is 500.
    pub fn denied(message: impl Into<String>, code: Option<u16>) -> Self {
        Self::Denied {
            message: message.into(),
            code: code.filter(|&code| code != 0).unwrap_or(500),
        }
    }

    /// Returns an arbitrary error.
    pub fn arbitrary(message: impl Into<String>) -> Self {
        Self::Arbitrary {
            message: message.into(),
            details: None,
            attachment: None,
        }
    }

    /// Returns an exception of a frontend, which is passed to the log record unchanged.
    ///
    /// ```
    /// use kopf_core::outcome::{Attachment, HandlerError};
    ///
    /// struct Exception(&'static str);
    ///
    /// let exception = Attachment::new(Exception("KeyError"));
    /// let error = HandlerError::exception("'spec'", None, exception);
    /// let HandlerError::Arbitrary { attachment: Some(exception), .. } = error else {
    ///     unreachable!()
    /// };
    /// assert_eq!(exception.downcast_ref::<Exception>().map(|e| e.0), Some("KeyError"));
    /// ```
    pub fn exception(
        message: impl Into<String>,
        details: Option<String>,
        attachment: Attachment,
    ) -> Self {
        Self::Arbitrary {
            message: message.into(),
            details,
            attachment: Some(attachment),
        }
    }

    /// Converts any error: its own message, with the whole chain as the details. An empty message
    /// is replaced by the debug output.
    pub fn from_error(error: &(dyn std::error::Error + 'static)) -> Self {
        let text = |error: &(dyn std::error::Error + 'static)| match error.to_string() {
            text if text.is_empty() => format!("{error:?}"),
            text => text,
        };
        let chain: Vec<String> = std::iter::successors(Some(error), |error| error.source())
            .map(text)
            .collect();
        let details = (chain.len() > 1).then(|| chain.join("\ncaused by: "));
        Self::Arbitrary {
            message: chain.into_iter().next().unwrap_or_default(),
            details,
            attachment: None,
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Temporary { message, .. }
            | Self::Permanent { message }
            | Self::Denied { message, .. }
            | Self::Arbitrary { message, .. } => f.write_str(message),
            Self::Unfinished { .. } => f.write_str("sub-handlers are not finished"),
            Self::TimedOut => f.write_str("the handler has timed out"),
            Self::Cancelled => f.write_str("the handler was cancelled"),
        }
    }
}

impl std::error::Error for HandlerError {}
