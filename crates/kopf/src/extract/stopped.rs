//! The stop flag of daemons and timers.

use std::fmt;
use std::time::Duration;

use kopf_core::background::StopReason;
use kopf_engine::daemons;

use super::{Context, Declared, Extract, OptionalExtract, Rejection};
use crate::seconds::IntoDuration;

/// The stop flag of a daemon or a timer, with the reason. Cheap to clone: clones share the flag.
///
/// ```
/// use kopf::StopReason;
/// use kopf::prelude::*;
///
/// #[kopf::daemon("kopfexamples")]
/// async fn monitor(stopped: Stopped, logger: Logger) {
///     while !stopped.wait(10).await {
///         logger.info("Still running.");
///     }
///     if stopped.reason().contains(StopReason::RESOURCE_DELETED) {
///         logger.info("The object is being deleted.");
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
    /// Returns `true` if the function has to return.
    pub fn is_set(&self) -> bool {
        self.0.is_set()
    }

    /// Returns the reasons. Further ones can be added later.
    pub fn reason(&self) -> StopReason {
        self.0.reason()
    }

    /// Waits until the flag is set, at most for this time. Returns `true` if it is set.
    /// Cancel-safe.
    pub async fn wait(&self, limit: impl IntoDuration) -> bool {
        let limit = limit.into_duration().unwrap_or(Duration::ZERO);
        self.0.wait(Some(limit)).await
    }

    /// Like [`wait`](Self::wait), for blocking functions.
    pub fn wait_blocking(&self, limit: impl IntoDuration) -> bool {
        let limit = limit.into_duration().unwrap_or(Duration::ZERO);
        self.0.wait_blocking(Some(limit))
    }

    /// Waits until the flag is set. Cancel-safe.
    pub async fn requested(&self) {
        self.0.wait(None).await;
    }

    /// Like [`requested`](Self::requested), for blocking functions.
    pub fn requested_blocking(&self) {
        self.0.wait_blocking(None);
    }

    /// Sets the flag with a reason, for tests.
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
        declared.background("Stopped")
    }
}

impl OptionalExtract for Stopped {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        let stopped = &context.call("Stopped")?.stopped;
        Ok(stopped.clone().map(Self))
    }
}
