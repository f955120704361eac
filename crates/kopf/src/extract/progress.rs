//! The attempts and times of the handler.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;

use super::{Context, Extract, FilterExtract, Rejection};

/// The number of earlier attempts: 0 in the first one. It survives restarts of the operator.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples", backoff = 1)]
/// fn flaky(retry: Retry) -> kopf::Result<()> {
///     if *retry < 3 {
///         return Err(kopf::temporary(format_args!("attempt {retry} fails")).delay(1));
///     }
///     Ok(())
/// }
///
/// assert!(flaky(Retry(0)).is_err());
/// assert!(flaky(Retry(3)).is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Retry(pub u32);

/// The current time of the operator's clock, which is virtual in tests with paused time.
///
/// ```
/// use kopf::prelude::*;
/// use kopf::{Now, Patch};
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn(Now(now): Now, patch: Patch) {
///     patch.status().set("seen", now.to_string());
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Now(pub Timestamp);

/// The time when the handler was first due for this cause. It survives restarts of the operator.
///
/// ```
/// use kopf::prelude::*;
/// use kopf::{Patch, Started};
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn(Started(started): Started, patch: Patch) {
///     patch.status().set("started", started.to_string());
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Started(pub Timestamp);

/// The duration since [`Started`], at the start of this attempt.
///
/// ```
/// use std::time::Duration;
/// use kopf::Runtime;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn patient(Runtime(runtime): Runtime) -> kopf::Result<()> {
///     if runtime > Duration::from_secs(3600) {
///         return Err(kopf::permanent("no response for an hour"));
///     }
///     Err(kopf::temporary("no response yet").delay(60))
/// }
/// # let _ = patient(Runtime(Duration::ZERO));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Runtime(pub Duration);

impl Extract for Retry {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self(context.call("Retry")?.retry))
    }
}

impl Deref for Retry {
    type Target = u32;

    fn deref(&self) -> &u32 {
        &self.0
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Extract for Now {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self(context.operator().clock.now()))
    }
}

impl FilterExtract for Now {}

impl Extract for Started {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self(context.call("Started")?.started))
    }
}

impl Extract for Runtime {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self(context.call("Runtime")?.runtime))
    }
}
