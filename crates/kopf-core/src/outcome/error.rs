//! How handlers fail.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An opaque value of a front that belongs to an error, such as an exception of its language.
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

/// How a handler can fail.
#[derive(Clone, Debug, PartialEq)]
pub enum HandlerError {
    /// It will work later.
    Temporary {
        /// What to say about it.
        message: String,
        /// When to try again; none is at once.
        delay: Option<Duration>,
    },
    /// It will never work.
    Permanent {
        /// What to say about it.
        message: String,
    },
    /// What was asked for is not to be done. Out of admission, the same as a permanent one.
    Denied {
        /// What to say about it.
        message: String,
        /// The status code for the one who has asked.
        code: u16,
    },
    /// Anything else; what it means depends on the handler's [`ErrorsMode`](crate::handler::ErrorsMode).
    Arbitrary {
        /// What to say about it.
        message: String,
        /// Where it comes from (a chain of errors, a backtrace), for logs.
        details: Option<String>,
        /// An exception of a front, for the log record.
        attachment: Option<Attachment>,
    },
    /// It has sub-handlers that are not finished. Not an error, really.
    Unfinished {
        /// When the first of them is due; none is at once.
        delay: Option<Duration>,
    },
    /// It ran out of its time and was stopped in the middle.
    TimedOut,
    /// It was told to end, did not, and was stopped in the middle.
    Cancelled,
}

impl HandlerError {
    /// It will work later; without a delay, at once.
    pub fn temporary(message: impl Into<String>, delay: Option<Duration>) -> Self {
        Self::Temporary {
            message: message.into(),
            delay,
        }
    }

    /// It will never work.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::Permanent {
            message: message.into(),
        }
    }

    /// What was asked for is not to be done; without a code, it is 500.
    pub fn denied(message: impl Into<String>, code: Option<u16>) -> Self {
        Self::Denied {
            message: message.into(),
            code: code.filter(|&code| code != 0).unwrap_or(500),
        }
    }

    /// Anything else.
    pub fn arbitrary(message: impl Into<String>) -> Self {
        Self::Arbitrary {
            message: message.into(),
            details: None,
            attachment: None,
        }
    }

    /// An exception of a front, which reaches the log record as it is.
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

    /// An error of any type: its own text is the message, the whole chain are the details. If it
    /// has no text, then what it is.
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
