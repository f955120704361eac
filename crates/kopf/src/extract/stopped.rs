//! Whether a daemon or a timer is to end.

use std::fmt;
use std::time::Duration;

use kopf_core::background::StopReason;
use kopf_engine::daemons;

use super::{Context, Declared, Extract, OptionalExtract, Rejection};
use crate::seconds::IntoDuration;

/// Whether a daemon or a timer is to end, and why. Cheap to clone: clones are the same flag.
///
/// ```
/// use kopf::StopReason;
/// use kopf::prelude::*;
///
/// #[kopf::daemon("kopfexamples")]
/// async fn monitor(stopped: Stopped, logger: Logger) {
///     while !stopped.wait(10).await {
///         logger.info("It is still there.");
///     }
///     if stopped.reason().contains(StopReason::RESOURCE_DELETED) {
///         logger.info("It is about to go.");
///     }
/// }
///
/// // In tests of the function:
/// let stopped = Stopped::default();
/// assert!(!stopped.is_set());
/// stopped.set(StopReason::OPERATOR_EXITING);
/// assert!(stopped.wait_blocking(10));
/// ```
#[derive(Clone, Default)]
pub struct Stopped(daemons::Stopped);

impl Stopped {
    /// Whether it is to end.
    pub fn is_set(&self) -> bool {
        self.0.is_set()
    }

    /// Why it is to end; there can be more and more reasons.
    pub fn reason(&self) -> StopReason {
        self.0.reason()
    }

    /// Sleeps for this time, but not longer than until it is to end; says whether it is.
    pub async fn wait(&self, limit: impl IntoDuration) -> bool {
        let limit = limit.into_duration().unwrap_or(Duration::ZERO);
        self.0.wait(Some(limit)).await
    }

    /// The same in functions that are not async.
    pub fn wait_blocking(&self, limit: impl IntoDuration) -> bool {
        let limit = limit.into_duration().unwrap_or(Duration::ZERO);
        self.0.wait_blocking(Some(limit))
    }

    /// Waits until it is to end, however long that takes.
    pub async fn requested(&self) {
        self.0.wait(None).await;
    }

    /// The same in functions that are not async.
    pub fn requested_blocking(&self) {
        self.0.wait_blocking(None);
    }

    /// Sets the flag, for one more reason: for tests of the function.
    pub fn set(&self, reason: StopReason) {
        self.0.set(reason);
    }
}

impl fmt::Debug for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Extract for Stopped {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let argument = "Stopped";
        Self::extract_optional(context)?.ok_or(Rejection::NotBackground { argument })
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.beside("Stopped")
    }
}

impl OptionalExtract for Stopped {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        let stopped = &context.call("Stopped")?.stopped;
        Ok(stopped.clone().map(Self))
    }
}
