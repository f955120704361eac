//! Arguments of daemons and timers: the stop flag, and the current version of the object.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kopf_core::background::StopReason;
use kopf_core::cause::Cause;
use kopf_core::sync::Mutex;
use kopf_engine::daemons::{self, LiveBody};
use kopf_engine::invocation::Call;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};
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

/// A part of the current version of the object, in daemons and timers: `Live<Spec>`,
/// `Live<Labels>`, `Live<Object<K>>`, and others. Cheap to clone.
///
/// Other arguments do not change while the function runs.
///
/// ```
/// use kopf::prelude::*;
/// use kopf::{Labels, Live};
///
/// #[kopf::daemon("kopfexamples")]
/// async fn monitor(spec: Live<Spec>, labels: Live<Labels>, stopped: Stopped, logger: Logger) {
///     while !stopped.wait(10).await {
///         let app = labels.get().get("app").map(str::to_owned);
///         logger.info(format_args!("field={}, app={app:?}", spec.get()["field"]));
///     }
/// }
///
/// // In tests of the function:
/// let spec: Live<Spec> = Live::of(Spec(json!({"field": "value"}).into()));
/// assert_eq!(spec.get()["field"], "value");
/// ```
pub struct Live<T>(Arc<Watched<T>>);

struct Watched<T> {
    source: Option<Source>,
    last: Mutex<T>,
}

struct Source {
    live: LiveBody,
    cause: Arc<Cause>,
    call: Call,
}

impl<T> Live<T> {
    /// Creates a value that never changes, for tests.
    pub fn of(value: T) -> Self {
        Self(Arc::new(Watched {
            source: None,
            last: Mutex::new(value),
        }))
    }
}

impl<T: FilterExtract + Clone> Live<T> {
    /// Returns the current value. If the current object is malformed, returns the last valid value.
    pub fn get(&self) -> T {
        match self.try_get() {
            Ok(value) => {
                *self.0.last.lock() = value.clone();
                value
            }
            Err(_) => self.0.last.lock().clone(),
        }
    }

    /// Returns the current value, or an error if the current object is malformed.
    pub fn try_get(&self) -> Result<T, Rejection> {
        match &self.0.source {
            None => Ok(self.0.last.lock().clone()),
            Some(source) => source.extract(),
        }
    }
}

impl Source {
    fn extract<T: Extract>(&self) -> Result<T, Rejection> {
        let mut cause = (*self.cause).clone();
        cause.body = self.live.get();
        T::extract(&Context::of_live(&cause, &self.call))
    }
}

impl<T: FilterExtract> Extract for Live<T> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let argument = "Live";
        let call = context.call(argument)?;
        let (Some(live), Some(cause)) = (call.live.clone(), call.cause().cloned()) else {
            return Err(Rejection::NotBackground { argument });
        };
        let call = call.clone();
        let source = Source { live, cause, call };
        let last = Mutex::new(source.extract()?);
        let source = Some(source);
        Ok(Self(Arc::new(Watched { source, last })))
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.background("Live")?;
        T::check(declared)
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Live<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.0.last.lock();
        f.debug_tuple("Live").field(&*last).finish()
    }
}
