//! The attempt of the handler: its number, times, parameter and logger.

use std::any::type_name;
use std::fmt::{self, Display};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_core::wording::Level;
use kopf_engine::logger::ObjectLogger;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};

/// The number of earlier attempts: 0 in the first one. It survives restarts of the operator.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples", backoff = 1)]
/// fn flaky(retry: Retry) -> kopf::Result<()> {
///     if *retry < 3 {
///         return Err(kopf::temporary(format!("attempt {retry} fails")).delay(1));
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

/// The option `param` of the handler.
///
/// Several handlers with the same function can differ in it. The type must be exactly that of the
/// declared value: a literal number is an `i32`, a literal string is a `&'static str`.
///
/// ```
/// use kopf::Param;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples", id = "small", param = 10)]
/// #[kopf::on::create("kopfexamples", id = "big", param = 1000)]
/// fn sized(Param(size): Param<i32>) -> i32 {
///     size
/// }
///
/// assert_eq!(sized(Param(10)), 10);
///
/// fn is_large(Param(limit): Param<i32>, Spec(spec): Spec) -> bool {
///     spec["size"].as_i64() > Some(limit.into())
/// }
///
/// #[kopf::on::create("kopfexamples", id = "large", param = 5000, when = is_large)]
/// fn large() {}
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Param<T>(pub T);

impl<T: Clone + Send + Sync + 'static> Extract for Param<T> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Self::extract_optional(context)?.ok_or(Rejection::NoParam)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        match declared.param {
            None => Err(Rejection::NoParam),
            Some(param) if param.is::<T>() => Ok(()),
            Some(_) => Err(other_param::<T>()),
        }
    }
}

impl<T: Clone + Send + Sync + 'static> OptionalExtract for Param<T> {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        match context.param() {
            None => Ok(None),
            Some(param) => match param.downcast_ref::<T>() {
                Some(param) => Ok(Some(Self(param.clone()))),
                None => Err(other_param::<T>()),
            },
        }
    }
}

impl<T: Clone + Send + Sync + 'static> FilterExtract for Param<T> {}

fn other_param<T>() -> Rejection {
    Rejection::OtherParam {
        type_name: type_name::<T>(),
    }
}

/// The logger of the object; in activities, such as `on::startup`, the logger of the activity.
/// Cheap to clone.
///
/// Records of level INFO and above are also posted as k8s-events of the object, unless the settings
/// disable this (`posting.loggers`, `posting.level`). Records of admission handlers are never
/// posted, because the object may not be stored.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn(logger: Logger, Spec(spec): Spec) {
///     logger.debug(&*spec);
///     logger.info("Created.");
///     logger.warn(format_args!("The field is {}.", spec["field"]));
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Logger(ObjectLogger);

impl Logger {
    /// Logs at level DEBUG.
    pub fn debug(&self, message: impl Display) {
        self.0.debug(message);
    }

    /// Logs at level INFO.
    pub fn info(&self, message: impl Display) {
        self.0.info(message);
    }

    /// Logs at level WARNING.
    pub fn warn(&self, message: impl Display) {
        self.0.warning(message);
    }

    /// Logs at level ERROR.
    pub fn error(&self, message: impl Display) {
        self.0.error(message);
    }

    /// Logs at any level.
    pub fn log(&self, level: Level, message: impl Display) {
        self.0.log(level, message);
    }

    /// Returns a logger whose records are not posted as events of the object.
    #[must_use]
    pub fn local(&self) -> Self {
        Self(self.0.local())
    }

    /// Returns `true` if DEBUG records are logged. Use it to avoid expensive messages.
    pub fn is_debug_enabled(&self) -> bool {
        self.0.is_debug_enabled()
    }
}

/// A logger without an object, for tests of handlers.
impl Default for Logger {
    fn default() -> Self {
        Self(ObjectLogger::new(Arc::default(), None))
    }
}

impl Extract for Logger {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self(context.logger().clone()))
    }
}

impl FilterExtract for Logger {}
