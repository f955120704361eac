//! Options of daemons and timers.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Param;
use crate::cause::Cause;
use crate::patch::BoxError;

/// The cancellation of a daemon. Without a timeout, it is awaited indefinitely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cancellation {
    /// The time to end by itself after the signal, before it is cancelled.
    pub backoff: Option<Duration>,
    /// The time to end after the cancellation, before it is abandoned.
    pub timeout: Option<Duration>,
    /// The polling interval; by default, `settings.background.cancellation_polling`.
    pub polling: Option<Duration>,
}

impl Cancellation {
    /// Signalled, and awaited indefinitely.
    pub const NONE: Self = Self {
        backoff: None,
        timeout: None,
        polling: None,
    };
}

/// The timing of a timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timing {
    /// The delay between two calls.
    pub interval: Option<Duration>,
    /// `true` if the interval counts from the start of the call, not from its end.
    pub sharp: bool,
    /// The time for which the object must not have changed.
    pub idle: Option<Duration>,
}

impl Timing {
    /// Called once.
    pub const ONCE: Self = Self {
        interval: None,
        sharp: false,
        idle: None,
    };
}

/// The delay before the first call.
#[derive(Clone)]
pub enum InitialDelay {
    /// Always the same.
    Fixed(Duration),
    /// Computed by a function of the user for each object.
    Function(Arc<dyn DelayFunction>),
}

/// A function that returns a delay.
///
/// The context is agreed between the engine and the frontend, as in filters.
pub trait DelayFunction: Send + Sync {
    /// Returns the delay for this object.
    fn delay(&self, cause: &Cause, context: &dyn Any) -> Result<Duration, BoxError>;

    /// Returns the delay for a handler with this `param`. Ignores the `param` by default.
    fn delay_for(
        &self,
        cause: &Cause,
        context: &dyn Any,
        _param: Option<&Param>,
    ) -> Result<Duration, BoxError> {
        self.delay(cause, context)
    }
}

impl fmt::Debug for InitialDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(delay) => delay.fmt(f),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}
