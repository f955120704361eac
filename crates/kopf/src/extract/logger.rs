//! The logger of the object or the activity.

use std::fmt::Display;
use std::sync::Arc;

use kopf_core::wording::Level;
use kopf_engine::logger::ObjectLogger;

use super::{Context, Extract, FilterExtract, Rejection};

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
