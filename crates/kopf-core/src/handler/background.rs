//! What is declared about handlers that run beside objects.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Param;
use crate::cause::Cause;
use crate::patch::BoxError;

/// How a daemon is made to end. Without a timeout, it is waited for, however long it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cancellation {
    /// How long it can end by itself after it was told to, before it is cancelled.
    pub backoff: Option<Duration>,
    /// How long it can take to end after it was cancelled, before it is abandoned.
    pub timeout: Option<Duration>,
    /// How often to look whether it has ended; by default,
    /// `settings.background.cancellation_polling`.
    pub polling: Option<Duration>,
}

impl Cancellation {
    /// Told to end, and waited for.
    pub const NONE: Self = Self {
        backoff: None,
        timeout: None,
        polling: None,
    };
}

/// When a timer is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timing {
    /// How long to wait after one call before the next one.
    pub interval: Option<Duration>,
    /// Whether the interval counts from the beginning of the call, not from its end.
    pub sharp: bool,
    /// How long the object must not have changed.
    pub idle: Option<Duration>,
}

impl Timing {
    /// Called once, and never again.
    pub const ONCE: Self = Self {
        interval: None,
        sharp: false,
        idle: None,
    };
}

/// How long to wait before the first call.
#[derive(Clone)]
pub enum InitialDelay {
    /// Always the same.
    Fixed(Duration),
    /// As a function of the user says for each object.
    Function(Arc<dyn DelayFunction>),
}

/// A function that says how long to wait.
///
/// The context is whatever the engine and the front have agreed upon, as in filters.
pub trait DelayFunction: Send + Sync {
    /// The delay for this object.
    fn delay(&self, cause: &Cause, context: &dyn Any) -> Result<Duration, BoxError>;

    /// The same, with the `param` of the handler. Ignores it by default.
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
